/* The columns of a table without quotes, read in one pass: the compiled half of csv.py.

   A column is whole numbers until a cell is none; one whose first cell is none is names until there are too many. What is
   neither is left to others, and so is the whole table if one of its lines has another number of cells. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "eight bytes are read as a number whose lowest byte is the first, and counted as GCC and Clang do"
#endif

#define SLOTS 4096 /* of a table of names, a power of two */
#define MOST_NAMES (SLOTS / 4)
#define MOST_TABLES 1024 /* columns that are read as names; each has a table of 32 KB */
#define LARGEST (INT64_C(1) << 53) /* beyond it a float64 skips whole numbers */
#define MOST_DIGITS 16
#define EACH UINT64_C(0x0101010101010101) /* times a byte: that byte eight times */

typedef struct {
    const char *text;
    Py_ssize_t length;
    uint64_t mixed; /* what end_of_cell makes of it: of up to 8 bytes different ones have different ones */
} Name;

typedef struct {
    enum { UNKNOWN, NUMBERS, NAMES, NEITHER } kind;
    PyObject *values; /* bytes: int64 of each row, or the uint16 place of its name */
    Name *names;
    uint16_t *slots; /* places of names, plus one; 0 is empty */
    int n_names;
} Column;

static Py_ssize_t count_lines(const char *text, const char *end)
{
    Py_ssize_t n = 1;
    const uint64_t low = EACH * 0x7f, newlines = EACH * '\n';
    for (; end - text >= 8; text += 8) {
        uint64_t eight;
        memcpy(&eight, text, 8);
        eight ^= newlines;
        /* The high bit of each byte that is now 0, and of no other. */
        eight = ~(((eight & low) + low) | eight | low);
        n += (Py_ssize_t)(((eight >> 7) * EACH) >> 56);
    }
    for (; text < end; text++) {
        n += *text == '\n';
    }
    return n;
}

/* The next 8 bytes, the first one lowest; 0 behind the end. */
static inline uint64_t next_eight(const char *at, const char *end)
{
    uint64_t eight = 0;
    if (end - at >= 8) {
        memcpy(&eight, at, 8);
    } else {
        memcpy(&eight, at, (size_t)(end - at));
    }
    return eight;
}

/* A whole number as it is usually written, at `at`, with its end; or NULL. Up to 7 digits, which most have, are read
   together and without a branch on how many there are, which could not be foreseen. */
static inline const char *read_number(const char *at, const char *end, char separator, int64_t *number)
{
    int is_negative = at < end && *at == '-' && separator != '-';
    at += is_negative;
    uint64_t digits = next_eight(at, end) ^ (EACH * '0');
    char first = (char)(digits & 0xff);
    uint64_t others = ((digits + EACH * 0x76) | digits) & (EACH * 0x80); /* the high bit of what is no digit, up to the first */
    int64_t value = 0;
    int n_digits;
    if (others != 0) {
        n_digits = __builtin_ctzll(others) / 8;
        digits <<= 1;
        digits <<= 63 - 8 * n_digits; /* zeros in front */
        digits = (digits * 10 + (digits >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
        digits = (digits * 100 + (digits >> 16)) & UINT64_C(0x0000ffff0000ffff);
        value = (int64_t)((digits * 10000 + (digits >> 32)) & UINT64_C(0xffffffff));
    } else {
        for (n_digits = 0; at + n_digits < end && (unsigned)at[n_digits] - '0' < 10; n_digits++) {
            if (n_digits == MOST_DIGITS) {
                return NULL;
            }
            value = 10 * value + at[n_digits] - '0';
        }
    }
    at += n_digits;
    int has_end = at == end || *at == separator || *at == '\n';
    int is_usual = n_digits > 0 && (first != 0 || (n_digits == 1 && !is_negative));
    *number = is_negative ? -value : value;
    return has_end && is_usual && value <= LARGEST ? at : NULL;
}

/* Where a cell ends, and a number that differs between most cells. */
static inline const char *end_of_cell(const char *at, const char *end, char separator, uint64_t *mixed)
{
    const uint64_t separators = EACH * (unsigned char)separator, newlines = EACH * '\n';
    *mixed = 0;
    for (;;) {
        uint64_t eight = next_eight(at, end), before = eight ^ separators, behind = eight ^ newlines;
        /* The high bit of the first byte that is 0 now, and of none before it. */
        uint64_t ends = (((before - EACH) & ~before) | ((behind - EACH) & ~behind)) & (EACH * 0x80);
        Py_ssize_t n = ends != 0 ? __builtin_ctzll(ends) / 8 : 8;
        n = n < end - at ? n : end - at;
        eight &= n < 8 ? (UINT64_C(1) << 8 * n) - 1 : ~UINT64_C(0);
        *mixed = (*mixed ^ eight) * UINT64_C(0x9E3779B97F4A7C15);
        *mixed ^= *mixed >> 32;
        at += n;
        if (n < 8) {
            return at;
        }
    }
}

/* The place of a name, which is added where it is new; -1 where there are too many. */
static inline int place_of(Column *column, const char *text, Py_ssize_t length, uint64_t mixed)
{
    for (uint64_t slot = mixed % SLOTS;; slot = (slot + 1) % SLOTS) {
        int place = (int)column->slots[slot] - 1;
        if (place < 0) {
            if (column->n_names == MOST_NAMES) {
                return -1;
            }
            column->names[column->n_names] = (Name){text, length, mixed};
            column->slots[slot] = (uint16_t)++column->n_names;
            return column->n_names - 1;
        }
        const Name *name = &column->names[place];
        if (name->mixed == mixed && name->length == length &&
            (length <= 8 || memcmp(name->text, text, (size_t)length) == 0)) {
            return place;
        }
    }
}

/* Whether all lines have one cell for each column; then the columns are filled in. */
static int read_lines(
    Column *columns, Py_ssize_t n_columns, const char *at, const char *end, char separator, Py_ssize_t longest)
{
    for (Py_ssize_t row = 0;; row++) {
        const char *line = at;
        for (Py_ssize_t place = 0; place < n_columns; place++) {
            Column *column = &columns[place];
            const char *cell = at;
            uint64_t mixed;
            if (column->kind == NUMBERS) {
                at = read_number(cell, end, separator, (int64_t *)PyBytes_AS_STRING(column->values) + row);
                if (at == NULL) {
                    column->kind = NEITHER;
                }
            }
            if (column->kind != NUMBERS) {
                at = end_of_cell(cell, end, separator, &mixed);
            }
            if (column->kind == NAMES) {
                int name = place_of(column, cell, at - cell, mixed);
                if (name < 0) {
                    column->kind = NEITHER;
                } else {
                    ((uint16_t *)PyBytes_AS_STRING(column->values))[row] = (uint16_t)name;
                }
            }
            int is_last = place == n_columns - 1;
            if (is_last ? at < end && *at == separator : at == end || *at == '\n') {
                return 0;
            }
            at += !is_last;
        }
        if (at == line || at - line > longest) {
            return 0;
        }
        if (at++ == end) {
            return 1;
        }
    }
}

static int begin_columns(
    Column *columns, Py_ssize_t n_columns, Py_ssize_t n_rows, const char *at, const char *end, char separator)
{
    Py_ssize_t n_tables = 0;
    for (Py_ssize_t place = 0; place < n_columns; place++) {
        Column *column = &columns[place];
        int64_t number;
        uint64_t mixed;
        if (read_number(at, end, separator, &number) != NULL) {
            column->kind = NUMBERS;
            column->values = PyBytes_FromStringAndSize(NULL, n_rows * (Py_ssize_t)sizeof(int64_t));
        } else if (n_tables++ < MOST_TABLES) {
            column->kind = NAMES;
            column->values = PyBytes_FromStringAndSize(NULL, n_rows * (Py_ssize_t)sizeof(uint16_t));
            column->names = PyMem_Malloc(MOST_NAMES * sizeof(Name));
            column->slots = PyMem_Calloc(SLOTS, sizeof(uint16_t));
            if (column->names == NULL || column->slots == NULL) {
                PyErr_NoMemory();
                return -1;
            }
        } else {
            column->kind = NEITHER;
        }
        if (column->kind != NEITHER && column->values == NULL) {
            return -1;
        }
        at = end_of_cell(at, end, separator, &mixed);
        if (at < end && *at == separator) {
            at++;
        }
    }
    return 0;
}

/* What Python gets of a column: its numbers; the places of its names and these; or None. */
static PyObject *give(const Column *column)
{
    if (column->kind == NUMBERS) {
        return Py_NewRef(column->values);
    }
    if (column->kind == NEITHER) {
        return Py_NewRef(Py_None);
    }
    PyObject *names = PyList_New(column->n_names);
    for (int i = 0; names != NULL && i < column->n_names; i++) {
        PyObject *name = PyUnicode_DecodeUTF8(column->names[i].text, column->names[i].length, NULL);
        if (name == NULL) {
            Py_CLEAR(names);
        } else {
            PyList_SET_ITEM(names, i, name);
        }
    }
    return names == NULL ? NULL : Py_BuildValue("(ON)", column->values, names);
}

/* read(content, start, separator, n_columns, longest): the number of lines from `start` on, and their columns; or None. A
   line end behind the last line may be there. */
static PyObject *read_columns(PyObject *module, PyObject *args)
{
    PyObject *content, *found = NULL;
    Py_ssize_t start, n_columns, longest;
    int separator;
    if (!PyArg_ParseTuple(args, "SnCnn:read", &content, &start, &separator, &n_columns, &longest)) {
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(content);
    if (start < 0 || start >= size || n_columns < 1 || separator < 1 || separator > 127) {
        PyErr_SetString(PyExc_ValueError, "lines, columns and a separator in ASCII are wanted");
        return NULL;
    }
    const char *text = PyBytes_AS_STRING(content) + start, *end = PyBytes_AS_STRING(content) + size;
    end -= end[-1] == '\n';
    Column *columns = PyMem_Calloc((size_t)n_columns, sizeof(Column));
    if (columns == NULL) {
        return PyErr_NoMemory();
    }
    Py_ssize_t n_rows;
    int is_even = 0;
    Py_BEGIN_ALLOW_THREADS
    n_rows = count_lines(text, end);
    Py_END_ALLOW_THREADS
    if (begin_columns(columns, n_columns, n_rows, text, end, (char)separator) < 0) {
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    is_even = read_lines(columns, n_columns, text, end, (char)separator, longest);
    Py_END_ALLOW_THREADS
    if (!is_even) {
        found = Py_NewRef(Py_None);
        goto done;
    }
    PyObject *list = PyList_New(n_columns);
    for (Py_ssize_t place = 0; list != NULL && place < n_columns; place++) {
        PyObject *column = give(&columns[place]);
        if (column == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, place, column);
        }
    }
    found = list == NULL ? NULL : Py_BuildValue("(nN)", n_rows, list);
done:
    for (Py_ssize_t place = 0; place < n_columns; place++) {
        Py_XDECREF(columns[place].values);
        PyMem_Free(columns[place].names);
        PyMem_Free(columns[place].slots);
    }
    PyMem_Free(columns);
    return found;
}

static PyMethodDef methods[] = {
    {"read", read_columns, METH_VARARGS, "The number of lines, and the plain ones of their columns."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_plain_cells",
    .m_doc = "Columns of a table without quotes, read in one pass.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__plain_cells(void)
{
    return PyModule_Create(&definition);
}
