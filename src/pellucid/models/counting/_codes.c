/* Where codes stand among many sorted ones: the compiled twin of code_index.py, which says what all of this means.

   The places of the codes stand in a table of slots, each at a slot that its code alone decides, or behind it where that
   was taken. Most of a look-up is waiting for memory, so codes are looked up some at a time: first all of them ask for
   their slots, then for the codes that these point to, and only then is anything read. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define AT_ONCE 32
#define EMPTY UINT32_MAX

typedef struct {
    PyObject_HEAD
    Py_buffer codes; /* int64, sorted, all different */
    Py_ssize_t n;
    uint32_t *slots; /* places among the codes */
    uint64_t mask;
    int shift;
} Index;

static inline uint64_t first_slot(const Index *index, int64_t code)
{
    return ((uint64_t)code * UINT64_C(0x9E3779B97F4A7C15)) >> index->shift;
}

static inline Py_ssize_t place_of(const Index *index, uint64_t slot, int64_t code)
{
    const int64_t *codes = index->codes.buf;
    for (;; slot = (slot + 1) & index->mask) {
        uint32_t place = index->slots[slot];
        if (place == EMPTY) {
            return index->n;
        }
        if (codes[place] == code) {
            return place;
        }
    }
}

/* The places of up to AT_ONCE codes. */
static void find_some(const Index *index, const int64_t *wanted, int n, int64_t *places)
{
    const int64_t *codes = index->codes.buf;
    uint64_t slots[AT_ONCE];
    for (int i = 0; i < n; i++) {
        slots[i] = first_slot(index, wanted[i]);
        __builtin_prefetch(&index->slots[slots[i]]);
    }
    for (int i = 0; i < n; i++) {
        uint32_t place = index->slots[slots[i]];
        if (place != EMPTY) {
            __builtin_prefetch(&codes[place]);
        }
    }
    for (int i = 0; i < n; i++) {
        places[i] = place_of(index, slots[i], wanted[i]);
    }
}

/* A buffer of numbers of 8 bytes in a row. */
static int numbers_of(PyObject *object, Py_buffer *buffer, int flags, const char *kinds, const char *what)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) {
        return -1;
    }
    const char *format = buffer->format ? buffer->format : "B";
    if (buffer->itemsize != 8 || buffer->ndim != 1 || strlen(format) != 1 || strchr(kinds, format[0]) == NULL) {
        PyErr_Format(PyExc_TypeError, "%s has to be a row of numbers of 8 bytes", what);
        PyBuffer_Release(buffer);
        return -1;
    }
    return 0;
}

static int index_init(Index *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"codes", NULL};
    PyObject *codes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Index", names, &codes)) {
        return -1;
    }
    if (self->slots != NULL) {
        PyErr_SetString(PyExc_TypeError, "an index is made once");
        return -1;
    }
    if (numbers_of(codes, &self->codes, 0, "lq", "codes") < 0) {
        return -1;
    }
    self->n = self->codes.len / 8;
    if ((uint64_t)self->n >= EMPTY / 2) {
        PyErr_SetString(PyExc_OverflowError, "too many codes for an index");
        return -1;
    }
    int bits = 4;
    while (((uint64_t)1 << bits) < 2 * (uint64_t)self->n) {
        bits++;
    }
    uint64_t size = (uint64_t)1 << bits;
    self->mask = size - 1;
    self->shift = 64 - bits;
    self->slots = PyMem_Malloc(size * sizeof(uint32_t));
    if (self->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(self->slots, 0xff, size * sizeof(uint32_t));
    const int64_t *sorted = self->codes.buf;
    for (Py_ssize_t place = 0; place < self->n; place++) {
        if (place + AT_ONCE < self->n) {
            __builtin_prefetch(&self->slots[first_slot(self, sorted[place + AT_ONCE])], 1);
        }
        uint64_t slot = first_slot(self, sorted[place]);
        while (self->slots[slot] != EMPTY) {
            slot = (slot + 1) & self->mask;
        }
        self->slots[slot] = (uint32_t)place;
    }
    return 0;
}

static void index_dealloc(Index *self)
{
    PyMem_Free(self->slots);
    if (self->codes.obj != NULL) {
        PyBuffer_Release(&self->codes);
    }
    Py_TYPE(self)->tp_free(self);
}

/* find(wanted, places): fill in the place of each, the number of codes where it is not among them */
static PyObject *index_find(Index *self, PyObject *const *args, Py_ssize_t n_args)
{
    Py_buffer wanted, places;
    if (n_args != 2 || self->slots == NULL) {
        PyErr_SetString(PyExc_TypeError, "find takes the wanted codes and a row for their places");
        return NULL;
    }
    if (numbers_of(args[0], &wanted, 0, "lq", "wanted") < 0) {
        return NULL;
    }
    if (numbers_of(args[1], &places, PyBUF_WRITABLE, "lq", "places") < 0) {
        PyBuffer_Release(&wanted);
        return NULL;
    }
    Py_ssize_t n = wanted.len / 8;
    int fits = places.len == wanted.len;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < n; at += AT_ONCE) {
            int some = (int)(n - at < AT_ONCE ? n - at : AT_ONCE);
            find_some(self, (const int64_t *)wanted.buf + at, some, (int64_t *)places.buf + at);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&wanted);
    PyBuffer_Release(&places);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "there has to be a place for each code");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Tokens come as the smallest whole numbers that hold them. */
static inline int64_t token_at(const Py_buffer *tokens, Py_ssize_t i)
{
    switch (tokens->itemsize) {
    case 1:
        return ((const uint8_t *)tokens->buf)[i];
    case 2:
        return ((const uint16_t *)tokens->buf)[i];
    case 4:
        return ((const uint32_t *)tokens->buf)[i];
    default:
        return ((const int64_t *)tokens->buf)[i];
    }
}

static int tokens_of(PyObject *object, Py_buffer *buffer)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        return -1;
    }
    const char *format = buffer->format ? buffer->format : "B";
    if (buffer->ndim != 1 || strlen(format) != 1 || strchr("BHILQlq", format[0]) == NULL) {
        PyErr_SetString(PyExc_TypeError, "tokens have to be a row of whole numbers that are not negative");
        PyBuffer_Release(buffer);
        return -1;
    }
    return 0;
}

/* score(tokens, values, found, vocab_size, order, has_boundary, closing): for each token but the first order - 1, the
   value of the gram that ends with it, or nan where it is not among the codes, and how many these are. The codes are
   those of `Grams.codes`. */
static PyObject *index_score(Index *self, PyObject *args)
{
    PyObject *token_object, *value_object, *found_object;
    long long vocab_size, order, closing;
    int has_boundary;
    Py_buffer tokens, values, found;
    if (!PyArg_ParseTuple(args, "OOOLLpL", &token_object, &value_object, &found_object, &vocab_size, &order,
                          &has_boundary, &closing)) {
        return NULL;
    }
    if (self->slots == NULL || vocab_size < 1 || order < 1) {
        PyErr_SetString(PyExc_ValueError, "an alphabet and an order of at least one are wanted");
        return NULL;
    }
    if (tokens_of(token_object, &tokens) < 0) {
        return NULL;
    }
    if (numbers_of(value_object, &values, 0, "d", "values") < 0) {
        PyBuffer_Release(&tokens);
        return NULL;
    }
    if (numbers_of(found_object, &found, PyBUF_WRITABLE, "d", "found") < 0) {
        PyBuffer_Release(&tokens);
        PyBuffer_Release(&values);
        return NULL;
    }
    Py_ssize_t n_tokens = tokens.len / tokens.itemsize, n_before = (Py_ssize_t)order - 1;
    Py_ssize_t n_unseen = 0;
    int fits = values.len / 8 == self->n && found.len / 8 == (n_tokens > n_before ? n_tokens - n_before : 0);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        const double *value = values.buf;
        double *answer = found.buf;
        /* Wraps around where numbers are too large, as NumPy's do; such orders have no codes and are never asked. */
        uint64_t base = (uint64_t)vocab_size, oldest = 1, context = 0;
        for (long long k = 1; k < order; k++) {
            oldest *= base; /* what a digit is worth that just left the context, once multiplied by the base */
        }
        int64_t codes[AT_ONCE], places[AT_ONCE];
        int since = 0; /* how many digits of the context stand since the last boundary */
        for (Py_ssize_t i = 0; i < n_tokens;) {
            int some = 0;
            for (; some < AT_ONCE && i < n_tokens; i++) {
                uint64_t newest = (uint64_t)token_at(&tokens, i);
                if (i >= n_before) {
                    uint64_t end = newest == 0 ? (uint64_t)closing : newest;
                    codes[some++] = (int64_t)(context * base + end);
                }
                if (order == 1) {
                    continue;
                }
                if (has_boundary && newest == 0) {
                    context = 0;
                    since = 0;
                    continue;
                }
                context = context * base + newest;
                if (since == n_before) {
                    context -= (uint64_t)token_at(&tokens, i - n_before) * oldest;
                }
                else {
                    since++;
                }
            }
            find_some(self, codes, some, places);
            for (int j = 0; j < some; j++) {
                if (places[j] < self->n) {
                    __builtin_prefetch(&value[places[j]]);
                }
            }
            for (int j = 0; j < some; j++) {
                int is_seen = places[j] < self->n;
                *answer++ = is_seen ? value[places[j]] : Py_NAN;
                n_unseen += !is_seen;
            }
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&tokens);
    PyBuffer_Release(&values);
    PyBuffer_Release(&found);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "there has to be a value for each code and room for each token");
        return NULL;
    }
    return PyLong_FromSsize_t(n_unseen);
}

static PyMethodDef index_methods[] = {
    {"find", (PyCFunction)(void (*)(void))index_find, METH_FASTCALL, "Fill in where each wanted code stands."},
    {"score", (PyCFunction)index_score, METH_VARARGS, "Fill in the value of the gram that ends with each token."},
    {NULL},
};

static PyTypeObject IndexType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pellucid.models.counting._codes.Index",
    .tp_doc = "Where codes stand among many sorted ones.",
    .tp_basicsize = sizeof(Index),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)index_init,
    .tp_dealloc = (destructor)index_dealloc,
    .tp_methods = index_methods,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_codes", "Codes looked up, compiled.", -1, NULL};

PyMODINIT_FUNC PyInit__codes(void)
{
    if (PyType_Ready(&IndexType) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Index", (PyObject *)&IndexType) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
