/* Where codes stand among many sorted ones: the compiled twin of code_index.py, which says what all of this means.

   The places of the codes stand in a table of slots, each at a slot that its code alone decides, or behind it where that
   was taken. Most of a look-up is waiting for memory, so codes are looked up some at a time: first all of them ask for
   their slots, then for the codes that these point to, and only then is anything read.

   Where values are wanted and not places, the values stand beside their codes in buckets, one line of memory for four. */

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

static PyMethodDef index_methods[] = {
    {"find", (PyCFunction)(void (*)(void))index_find, METH_FASTCALL, "Fill in where each wanted code stands."},
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

#define IN_BUCKET 4
#define FULL 0.6 /* of the room in all buckets: the emptier, the rarer a full one that sends on to the next */
#define NO_CODE (-1)

typedef struct {
    int64_t codes[IN_BUCKET]; /* those that are there first, then NO_CODE */
    double values[IN_BUCKET];
} Bucket;

typedef struct {
    PyObject_HEAD
    Bucket *buckets;
    void *room; /* that the buckets are in, from its first whole line on */
    uint64_t n_buckets;
} Values;

static inline uint64_t bucket_of(const Values *table, int64_t code)
{
    return (((uint64_t)code * UINT64_C(0x9E3779B97F4A7C15) >> 32) * table->n_buckets) >> 32;
}

static inline double value_of(const Values *table, uint64_t at, int64_t code)
{
    for (;; at = at + 1 < table->n_buckets ? at + 1 : 0) {
        const Bucket *bucket = &table->buckets[at];
        /* All four are asked, without a branch that could be guessed wrong. */
        int found = IN_BUCKET;
        for (int i = 0; i < IN_BUCKET; i++) {
            found = bucket->codes[i] == code ? i : found;
        }
        if (found < IN_BUCKET) {
            return bucket->values[found];
        }
        if (bucket->codes[IN_BUCKET - 1] == NO_CODE) {
            return Py_NAN;
        }
    }
}

static int values_init(Values *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"codes", "values", NULL};
    PyObject *code_object, *value_object;
    Py_buffer codes, values;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:Values", names, &code_object, &value_object)) {
        return -1;
    }
    if (self->buckets != NULL) {
        PyErr_SetString(PyExc_TypeError, "a table is made once");
        return -1;
    }
    if (numbers_of(code_object, &codes, 0, "lq", "codes") < 0) {
        return -1;
    }
    if (numbers_of(value_object, &values, 0, "d", "values") < 0) {
        PyBuffer_Release(&codes);
        return -1;
    }
    uint64_t n = (uint64_t)codes.len / 8;
    const int64_t *code = codes.buf;
    const double *value = values.buf;
    int fits = values.len == codes.len;
    for (uint64_t i = 0; i < n; i++) {
        fits &= code[i] >= 0;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "there has to be a value for each code, and no code below 0");
        goto done;
    }
    uint64_t n_buckets = (uint64_t)((double)n / (IN_BUCKET * FULL)) + 1;
    if (n_buckets >= UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "too many codes for a table");
        goto done;
    }
    if ((self->room = PyMem_Malloc((n_buckets + 1) * sizeof(Bucket))) == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    self->n_buckets = n_buckets;
    self->buckets = (Bucket *)(((uintptr_t)self->room + sizeof(Bucket) - 1) / sizeof(Bucket) * sizeof(Bucket));
    for (uint64_t at = 0; at < n_buckets; at++) {
        self->buckets[at] = (Bucket){{NO_CODE, NO_CODE, NO_CODE, NO_CODE}, {0}};
    }
    for (uint64_t i = 0; i < n; i++) {
        if (i + AT_ONCE < n) {
            __builtin_prefetch(&self->buckets[bucket_of(self, code[i + AT_ONCE])], 1);
        }
        uint64_t at = bucket_of(self, code[i]);
        while (self->buckets[at].codes[IN_BUCKET - 1] != NO_CODE) {
            at = at + 1 < n_buckets ? at + 1 : 0;
        }
        int place = 0;
        while (self->buckets[at].codes[place] != NO_CODE) {
            place++;
        }
        self->buckets[at].codes[place] = code[i];
        self->buckets[at].values[place] = value[i];
    }
done:
    PyBuffer_Release(&codes);
    PyBuffer_Release(&values);
    return self->buckets != NULL ? 0 : -1;
}

static void values_dealloc(Values *self)
{
    PyMem_Free(self->room);
    Py_TYPE(self)->tp_free(self);
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

/* What grams are to be scored: `first` is the place of the first token that is. */
typedef struct {
    uint64_t base, closing;
    Py_ssize_t n_before, first;
    int has_boundary;
} Grams;

/* The answer for each token from the first on; back comes how many grams are not there. */
#define SCORE_ALL(name, token)                                                                                                   \
    static Py_ssize_t name(const Values *table, const Grams *grams, const token *tokens, Py_ssize_t n, double *answer)           \
    {                                                                                                                            \
        /* Wraps around where numbers are too large, as NumPy's do; such orders have no codes and are never asked. */            \
        uint64_t base = grams->base, oldest = 1, context = 0;                                                                    \
        Py_ssize_t n_before = grams->n_before, since = 0, n_unseen = 0; /* since: digits after the last boundary */              \
        for (Py_ssize_t k = 0; k < n_before; k++) {                                                                              \
            oldest *= base; /* what a digit is worth that just left the context, once multiplied by the base */                  \
        }                                                                                                                        \
        int64_t codes[AT_ONCE];                                                                                                  \
        uint64_t buckets[AT_ONCE];                                                                                               \
        for (Py_ssize_t i = 0; i < n;) {                                                                                         \
            int some = 0;                                                                                                        \
            for (; some < AT_ONCE && i < n; i++) {                                                                               \
                uint64_t newest = (uint64_t)tokens[i];                                                                           \
                int is_boundary = newest == 0;                                                                                   \
                codes[some] = (int64_t)(context * base + (is_boundary ? grams->closing : newest));                               \
                buckets[some] = bucket_of(table, codes[some]);                                                                   \
                __builtin_prefetch(&table->buckets[buckets[some]]);                                                              \
                some += i >= grams->first;                                                                                       \
                if (n_before == 0) {                                                                                             \
                    continue;                                                                                                    \
                }                                                                                                                \
                /* A boundary takes away all that stands before it. */                                                           \
                int is_new = grams->has_boundary & is_boundary, is_full = since == n_before;                                     \
                uint64_t left = is_full ? (uint64_t)tokens[i >= n_before ? i - n_before : 0] : 0;                                \
                context = is_new ? 0 : context * base + newest - left * oldest;                                                  \
                since = is_new ? 0 : since + !is_full;                                                                           \
            }                                                                                                                    \
            for (int j = 0; j < some; j++) {                                                                                     \
                double value = value_of(table, buckets[j], codes[j]);                                                            \
                n_unseen += value != value;                                                                                      \
                *answer++ = value;                                                                                               \
            }                                                                                                                    \
        }                                                                                                                        \
        return n_unseen;                                                                                                         \
    }

/* Tokens come as the smallest whole numbers that hold them. */
SCORE_ALL(score_bytes, uint8_t)
SCORE_ALL(score_shorts, uint16_t)
SCORE_ALL(score_words, uint32_t)
SCORE_ALL(score_longs, int64_t)

/* score(tokens, found, vocab_size, order, has_boundary, closing): for each token that there is room for, of the last ones,
   the value of the gram that ends with it, or nan where it is not among the codes, and how many these are. The codes are
   those of `Grams.codes`; without boundaries only a token with order - 1 before it has one. */
static PyObject *values_score(Values *self, PyObject *args)
{
    PyObject *token_object, *found_object;
    long long vocab_size, order, closing;
    int has_boundary;
    Py_buffer tokens, found;
    if (!PyArg_ParseTuple(args, "OOLLpL", &token_object, &found_object, &vocab_size, &order, &has_boundary, &closing)) {
        return NULL;
    }
    if (self->buckets == NULL || vocab_size < 1 || order < 1) {
        PyErr_SetString(PyExc_ValueError, "an alphabet and an order of at least one are wanted");
        return NULL;
    }
    if (tokens_of(token_object, &tokens) < 0) {
        return NULL;
    }
    if (numbers_of(found_object, &found, PyBUF_WRITABLE, "d", "found") < 0) {
        PyBuffer_Release(&tokens);
        return NULL;
    }
    Py_ssize_t n = tokens.len / tokens.itemsize, first = n - found.len / 8, n_unseen = 0;
    Grams grams = {(uint64_t)vocab_size, (uint64_t)closing, (Py_ssize_t)order - 1, first, has_boundary};
    int fits = first >= (has_boundary ? 0 : grams.n_before < n ? grams.n_before : n);
    if (fits) {
        double *answer = found.buf;
        Py_BEGIN_ALLOW_THREADS
        switch (tokens.itemsize) {
        case 1:
            n_unseen = score_bytes(self, &grams, tokens.buf, n, answer);
            break;
        case 2:
            n_unseen = score_shorts(self, &grams, tokens.buf, n, answer);
            break;
        case 4:
            n_unseen = score_words(self, &grams, tokens.buf, n, answer);
            break;
        default:
            n_unseen = score_longs(self, &grams, tokens.buf, n, answer);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&tokens);
    PyBuffer_Release(&found);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "more room than there are tokens with a gram");
        return NULL;
    }
    return PyLong_FromSsize_t(n_unseen);
}

static PyMethodDef values_methods[] = {
    {"score", (PyCFunction)values_score, METH_VARARGS, "Fill in the value of the gram that ends with each token."},
    {NULL},
};

static PyTypeObject ValuesType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pellucid.models.counting._codes.Values",
    .tp_doc = "Values beside their codes.",
    .tp_basicsize = sizeof(Values),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)values_init,
    .tp_dealloc = (destructor)values_dealloc,
    .tp_methods = values_methods,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_codes", "Codes looked up, compiled.", -1, NULL};

PyMODINIT_FUNC PyInit__codes(void)
{
    if (PyType_Ready(&IndexType) < 0 || PyType_Ready(&ValuesType) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddObjectRef(module, "Index", (PyObject *)&IndexType) < 0 ||
                           PyModule_AddObjectRef(module, "Values", (PyObject *)&ValuesType) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
