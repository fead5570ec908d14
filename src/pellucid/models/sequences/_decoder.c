/* A transformer of the form "pre" token by token: the compiled twin of fast_decoding.py, which says what is computed.

   A Decoder holds the weights, laid out as they are read: a matrix in panels of columns, the numbers of a panel for each
   input beside each other. A Past holds what was read, in slots of one sequence each: of every block and head the keys,
   some positions side by side so that one instruction multiplies all of them, and then the values. Whoever calls says which
   slot and which position each token has; so one function reads rows on by a token, long beginnings at once, and rows that
   have each read a number of tokens of their own. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if !defined(__GNUC__)
#error "vectors are written as GCC and Clang know them"
#endif

#define AT_ONCE 66 /* tokens that go through all blocks together; what they need stays in the nearer caches */
#define ALIGNED 64
#define HUGE_PAGE ((Py_ssize_t)1 << 21)

enum { PLAIN, AVX2, AVX512 }; /* instructions that only some processors have */

typedef struct {
    void *numbers; /* (panels, n_in, columns of a panel); what is missing in the last panel is 0 */
    Py_ssize_t n_in, n_panels;
} Packed;

struct decoder;
typedef void (*Pass)(const struct decoder *, char *const *, Py_ssize_t, const int64_t *, const int64_t *, const int64_t *,
                     Py_ssize_t, void *, void *);

typedef struct decoder {
    PyObject_HEAD
    int is_double;
    Py_ssize_t size, lanes; /* of a number, in bytes, and of a vector, in numbers */
    Py_ssize_t width, n_heads, head_width, depth, context, n_tokens, vocab_size;
    Py_ssize_t width_padded, parts_padded, wide_padded, head_padded;    /* up to whole panels, or whole vectors */
    Py_ssize_t keys_room, head_room, block_room, scores_room, all_room; /* in numbers */
    double scale;
    void *embedding; /* (n_tokens, width) */
    void *places;    /* (context, width), added to the embeddings, or NULL */
    void *angles;    /* (context, 2, head_width / 2), cosines and sines, or NULL */
    void *bias;      /* (heads, context), the last for the position itself, or NULL */
    Packed *blocks;  /* of each block four: to project, combine, expand and contract */
    Packed head;
    Pass pass;
} Decoder;

typedef struct {
    PyObject_HEAD
    Decoder *net;
    char **slots; /* each somewhere in one of the arenas */
    Py_ssize_t n_slots;
    char **arenas;
    Py_ssize_t n_arenas;
    int is_busy; /* another thread may come while one computes */
} Past;

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)

#define REAL float
#define INTEGER int32_t
#define LANES 8
#define N_TERMS 7
#define MANTISSA 23
#define EXPONENT_BIAS 127
#define ROUNDER 12582912.0f /* 1.5 · 2^23 */
#define LEAST_EXPONENT -87.0f
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f

#define NAME(x) JOIN(plain_float_, x)
#define TARGET
#define FUSED(a, b, c) ((a) * (b) + (c))
#define WIDE 1
#define SPLAT_PART SPLAT
#define FUSED_PART FUSED
#include "_decoder_kernels.h"

#if defined(__x86_64__)
#define HAS_COPIES /* for processors with more instructions */
#include <immintrin.h>
#define NAME(x) JOIN(avx2_float_, x)
#define TARGET __attribute__((target("avx2,fma")))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define WIDE 1
#define SPLAT_PART SPLAT
#define FUSED_PART FUSED
#include "_decoder_kernels.h"

#define NAME(x) JOIN(avx512_float_, x)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define WIDE 2
#define SPLAT_PART(value) ((NAME(part))_mm512_set1_ps(value))
#define FUSED_PART(a, b, c) ((NAME(part))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "_decoder_kernels.h"
#endif

#undef REAL
#undef INTEGER
#undef LANES
#undef N_TERMS
#undef MANTISSA
#undef EXPONENT_BIAS
#undef ROUNDER
#undef LEAST_EXPONENT
#undef LN2_HIGH
#undef LN2_LOW

#define REAL double
#define INTEGER int64_t
#define LANES 4
#define N_TERMS 13
#define MANTISSA 52
#define EXPONENT_BIAS 1023
#define ROUNDER 6755399441055744.0 /* 1.5 · 2^52 */
#define LEAST_EXPONENT -708.0
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10

#define NAME(x) JOIN(plain_double_, x)
#define TARGET
#define FUSED(a, b, c) ((a) * (b) + (c))
#define WIDE 1
#define SPLAT_PART SPLAT
#define FUSED_PART FUSED
#include "_decoder_kernels.h"

#if defined(HAS_COPIES)
#define NAME(x) JOIN(avx2_double_, x)
#define TARGET __attribute__((target("avx2,fma")))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define WIDE 1
#define SPLAT_PART SPLAT
#define FUSED_PART FUSED
#include "_decoder_kernels.h"

#define NAME(x) JOIN(avx512_double_, x)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define WIDE 2
#define SPLAT_PART(value) ((NAME(part))_mm512_set1_pd(value))
#define FUSED_PART(a, b, c) ((NAME(part))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#include "_decoder_kernels.h"
#endif

/* What this processor can do, but no more than was asked for. */
static Pass choose_pass(int is_double, int most)
{
#if defined(HAS_COPIES)
    int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (most >= AVX512 && has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return is_double ? avx512_double_pass : avx512_float_pass;
    }
    if (most >= AVX2 && has_avx2) {
        return is_double ? avx2_double_pass : avx2_float_pass;
    }
#endif
    (void)most;
    return is_double ? plain_double_pass : plain_float_pass;
}

static Py_ssize_t whole(Py_ssize_t n, Py_ssize_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void *make_room(Py_ssize_t numbers, Py_ssize_t size)
{
    void *found = aligned_alloc(ALIGNED, (size_t)whole(numbers * size, ALIGNED));
    if (found == NULL) {
        PyErr_NoMemory();
    }
    return found;
}

/* A buffer of so many numbers in a row, of the type of the decoder or of 8-byte whole numbers. */
static int get_numbers(PyObject *object, Py_buffer *buffer, int flags, const char *kinds, Py_ssize_t size, Py_ssize_t n,
                       const char *what)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) {
        return -1;
    }
    const char *format = buffer->format ? buffer->format : "B";
    if (buffer->itemsize != size || strlen(format) != 1 || strchr(kinds, format[0]) == NULL) {
        PyErr_Format(PyExc_TypeError, "%s has numbers of another type", what);
    }
    else if (n >= 0 && buffer->len / size != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd numbers in place of %zd", what, buffer->len / size, n);
    }
    else {
        return 0;
    }
    PyBuffer_Release(buffer);
    return -1;
}

static int get_weights(const Decoder *self, PyObject *object, Py_buffer *buffer, Py_ssize_t n, const char *what)
{
    return get_numbers(object, buffer, 0, self->is_double ? "d" : "f", self->size, n, what);
}

/* A copy of a table of weights; NULL with an exception where that fails. */
static void *copy_weights(const Decoder *self, PyObject *object, Py_ssize_t n, const char *what)
{
    Py_buffer buffer;
    if (get_weights(self, object, &buffer, n, what) < 0) {
        return NULL;
    }
    void *copy = make_room(n, self->size);
    if (copy != NULL) {
        memcpy(copy, buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    return copy;
}

/* Which row of the matrix that projects comes at this place. Rotary positions turn pairs of numbers: those of queries and
   keys are laid out as all first ones and then all second ones, which changes no product of a query with a key. */
static Py_ssize_t projected_row(const Decoder *self, Py_ssize_t place)
{
    Py_ssize_t half = self->head_width / 2, d = place % self->head_width;
    if (self->angles == NULL || place >= 2 * self->width) {
        return place;
    }
    return place - d + (d < half ? 2 * d : 2 * (d - half) + 1);
}

/* matrix: (n_out, n_in), as torch's linear layers have it. */
static int pack(const Decoder *self, PyObject *object, Packed *packed, Py_ssize_t n_out, Py_ssize_t n_in, int is_projection,
                const char *what)
{
    Py_buffer buffer;
    Py_ssize_t columns = 2 * self->lanes;
    if (get_weights(self, object, &buffer, n_out * n_in, what) < 0) {
        return -1;
    }
    packed->n_in = n_in;
    packed->n_panels = whole(n_out, columns) / columns;
    packed->numbers = make_room(packed->n_panels * columns * n_in, self->size);
    if (packed->numbers == NULL) {
        PyBuffer_Release(&buffer);
        return -1;
    }
    memset(packed->numbers, 0, (size_t)(packed->n_panels * columns * n_in * self->size));
    for (Py_ssize_t out = 0; out < n_out; out++) {
        Py_ssize_t from = (is_projection ? projected_row(self, out) : out) * n_in;
        Py_ssize_t to = out / columns * columns * n_in + out % columns;
        for (Py_ssize_t k = 0; k < n_in; k++) {
            if (self->is_double) {
                ((double *)packed->numbers)[to + k * columns] = ((const double *)buffer.buf)[from + k];
            }
            else {
                ((float *)packed->numbers)[to + k * columns] = ((const float *)buffer.buf)[from + k];
            }
        }
    }
    PyBuffer_Release(&buffer);
    return 0;
}

/* (context, head_width / 2, 2) -> (context, 2, head_width / 2) */
static void *copy_angles(const Decoder *self, PyObject *object)
{
    Py_buffer buffer;
    Py_ssize_t half = self->head_width / 2, n = self->context * self->head_width;
    if (get_weights(self, object, &buffer, n, "angles") < 0) {
        return NULL;
    }
    char *copy = make_room(n, self->size);
    for (Py_ssize_t i = 0; copy != NULL && i < n; i++) {
        Py_ssize_t position = i / self->head_width, pair = i % self->head_width / 2, which = i % 2;
        memcpy(copy + (position * self->head_width + which * half + pair) * self->size,
               (const char *)buffer.buf + i * self->size, (size_t)self->size);
    }
    PyBuffer_Release(&buffer);
    return copy;
}

static int decoder_init(Decoder *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"is_double", "n_tokens", "vocab_size", "context", "width", "n_heads",  "embedding", "head",
                            "blocks",    "places",   "angles",     "bias",    "wide",  "instructions", NULL};
    PyObject *embedding, *head, *blocks, *places, *angles, *bias;
    Py_ssize_t wide;
    int instructions = AVX512;
    if (self->embedding != NULL) {
        PyErr_SetString(PyExc_TypeError, "a decoder is made once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "pnnnnnOOO!OOOn|i:Decoder", names, &self->is_double, &self->n_tokens,
                                     &self->vocab_size, &self->context, &self->width, &self->n_heads, &embedding, &head,
                                     &PyTuple_Type, &blocks, &places, &angles, &bias, &wide, &instructions)) {
        return -1;
    }
    if (self->n_tokens < 1 || self->vocab_size < 1 || self->context < 1 || self->width < 1 || self->n_heads < 1 ||
        wide < 1 || self->width % self->n_heads) {
        PyErr_SetString(PyExc_ValueError, "sizes have to be positive, and heads share the width equally");
        return -1;
    }
    Py_ssize_t lanes = self->lanes = self->is_double ? 4 : 8, panel = 2 * lanes;
    self->size = self->is_double ? 8 : 4;
    self->head_width = self->width / self->n_heads;
    self->scale = 1 / sqrt((double)self->head_width);
    self->width_padded = whole(self->width, panel);
    self->parts_padded = whole(3 * self->width, panel);
    self->wide_padded = whole(wide > self->vocab_size ? wide : self->vocab_size, panel);
    self->head_padded = whole(self->head_width, lanes);
    self->keys_room = whole(self->context, lanes) * self->head_width;
    self->head_room = whole(self->keys_room + self->context * self->head_padded, ALIGNED);
    self->block_room = self->n_heads * self->head_room;
    self->scores_room = whole(self->context, lanes) + 4 * lanes;
    self->all_room = AT_ONCE * (2 * self->width_padded + self->parts_padded + self->wide_padded) + self->scores_room +
                     self->head_padded;
    self->pass = choose_pass(self->is_double, instructions);
    if ((self->embedding = copy_weights(self, embedding, self->n_tokens * self->width, "embedding")) == NULL) {
        return -1;
    }
    if (places != Py_None &&
        (self->places = copy_weights(self, places, self->context * self->width, "places")) == NULL) {
        return -1;
    }
    if (bias != Py_None && (self->bias = copy_weights(self, bias, self->n_heads * self->context, "bias")) == NULL) {
        return -1;
    }
    if (angles != Py_None) {
        if (self->head_width % 2) {
            PyErr_SetString(PyExc_ValueError, "only an even number of numbers can be turned in pairs");
            return -1;
        }
        if ((self->angles = copy_angles(self, angles)) == NULL) {
            return -1;
        }
    }
    if (pack(self, head, &self->head, self->vocab_size, self->width, 0, "head") < 0) {
        return -1;
    }
    Py_ssize_t depth = PyTuple_GET_SIZE(blocks);
    self->blocks = calloc((size_t)(4 * depth + 1), sizeof(Packed));
    if (self->blocks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->depth = depth; /* of which those that are not packed are all zero */
    for (Py_ssize_t block = 0; block < depth; block++) {
        PyObject *project, *combine, *expand, *contract;
        Packed *four = self->blocks + 4 * block;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(blocks, block), "OOOO", &project, &combine, &expand, &contract)) {
            return -1;
        }
        if (pack(self, project, four, 3 * self->width, self->width, 1, "project") < 0 ||
            pack(self, combine, four + 1, self->width, self->width, 0, "combine") < 0 ||
            pack(self, expand, four + 2, wide, self->width, 0, "expand") < 0 ||
            pack(self, contract, four + 3, self->width, wide, 0, "contract") < 0) {
            return -1;
        }
    }
    return 0;
}

static void decoder_dealloc(Decoder *self)
{
    free(self->embedding);
    free(self->places);
    free(self->angles);
    free(self->bias);
    free(self->head.numbers);
    for (Py_ssize_t i = 0; self->blocks != NULL && i < 4 * self->depth; i++) {
        free(self->blocks[i].numbers);
    }
    free(self->blocks);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject DecoderType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pellucid.models.sequences._decoder.Decoder",
    .tp_doc = "The weights of a transformer, laid out as they are read.",
    .tp_basicsize = sizeof(Decoder),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)decoder_init,
    .tp_dealloc = (destructor)decoder_dealloc,
};

static int past_init(Past *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"decoder", NULL};
    Decoder *net;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Past", names, &DecoderType, &net)) {
        return -1;
    }
    if (self->net != NULL || net->blocks == NULL) {
        PyErr_SetString(PyExc_TypeError, "a past is made once, of a decoder that is whole");
        return -1;
    }
    self->net = (Decoder *)Py_NewRef((PyObject *)net);
    return 0;
}

static void past_dealloc(Past *self)
{
    for (Py_ssize_t i = 0; i < self->n_arenas; i++) {
        free(self->arenas[i]);
    }
    free(self->arenas);
    free(self->slots);
    Py_XDECREF(self->net);
    Py_TYPE(self)->tp_free(self);
}

static int require_idle(const Past *self)
{
    if (self->net == NULL || self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "this past is in use by another thread");
        return -1;
    }
    return 0;
}

/* Room for so many bytes, in large pages where there are some: most of attention is waiting for memory. */
static char *make_arena(Py_ssize_t bytes)
{
    Py_ssize_t unit = bytes < HUGE_PAGE ? ALIGNED : HUGE_PAGE;
    char *arena = aligned_alloc((size_t)unit, (size_t)whole(bytes, unit));
    if (arena == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
#if defined(__linux__)
    if (unit == HUGE_PAGE) {
        (void)madvise(arena, (size_t)whole(bytes, unit), MADV_HUGEPAGE); /* where it is refused, small pages do */
    }
#endif
    return arena;
}

/* reserve(n): let there be at least n slots */
static PyObject *past_reserve(Past *self, PyObject *wanted)
{
    Py_ssize_t n = PyLong_AsSsize_t(wanted);
    if ((n == -1 && PyErr_Occurred()) || require_idle(self) < 0) {
        return NULL;
    }
    if (n > self->n_slots) {
        Py_ssize_t slot_size = whole((self->net->depth * self->net->block_room + 1) * self->net->size, ALIGNED);
        if (n > PY_SSIZE_T_MAX / 2 / slot_size) {
            return PyErr_NoMemory();
        }
        char **slots = realloc(self->slots, (size_t)n * sizeof(char *));
        if (slots == NULL) {
            return PyErr_NoMemory();
        }
        self->slots = slots;
        char **arenas = realloc(self->arenas, (size_t)(self->n_arenas + 1) * sizeof(char *));
        if (arenas == NULL) {
            return PyErr_NoMemory();
        }
        self->arenas = arenas;
        char *arena = make_arena((n - self->n_slots) * slot_size);
        if (arena == NULL) {
            return NULL;
        }
        arenas[self->n_arenas++] = arena;
        for (; self->n_slots < n; self->n_slots++, arena += slot_size) {
            slots[self->n_slots] = arena;
        }
    }
    Py_RETURN_NONE;
}

static int get_indices(PyObject *object, Py_buffer *buffer, Py_ssize_t n, Py_ssize_t below, const char *what)
{
    if (get_numbers(object, buffer, 0, "lq", 8, n, what) < 0) {
        return -1;
    }
    const int64_t *numbers = buffer->buf;
    for (Py_ssize_t i = 0; i < buffer->len / 8; i++) {
        if (numbers[i] < 0 || numbers[i] >= below) {
            PyErr_Format(PyExc_IndexError, "%s has %lld, and there are %zd", what, (long long)numbers[i], below);
            PyBuffer_Release(buffer);
            return -1;
        }
    }
    return 0;
}

/* copy(source, sources, targets, n): the first n positions of slots of that past, which may be this one, into slots here */
static PyObject *past_copy(Past *self, PyObject *args)
{
    Past *source;
    PyObject *from_object, *to_object;
    Py_ssize_t n;
    Py_buffer from, to;
    if (!PyArg_ParseTuple(args, "O!OOn", Py_TYPE(self), &source, &from_object, &to_object, &n) || require_idle(self) < 0) {
        return NULL;
    }
    const Decoder *net = self->net, *other = source->net;
    int is_alike = other != NULL && other->size == net->size && other->depth == net->depth &&
                   other->n_heads == net->n_heads && other->head_width == net->head_width && other->context == net->context;
    if (!is_alike || n < 0 || n > net->context) {
        PyErr_SetString(PyExc_ValueError, "both have to be of decoders of one shape, and of no more positions than it has");
        return NULL;
    }
    if (get_indices(from_object, &from, -1, source->n_slots, "sources") < 0) {
        return NULL;
    }
    if (get_indices(to_object, &to, from.len / 8, self->n_slots, "targets") < 0) {
        PyBuffer_Release(&from);
        return NULL;
    }
    size_t keys = (size_t)(whole(n, net->lanes) * net->head_width * net->size);
    size_t values = (size_t)(n * net->head_padded * net->size);
    for (Py_ssize_t i = 0; i < from.len / 8; i++) {
        const char *here = source->slots[((const int64_t *)from.buf)[i]];
        char *there = self->slots[((const int64_t *)to.buf)[i]];
        for (Py_ssize_t head = 0; here != there && head < net->depth * net->n_heads; head++) {
            Py_ssize_t at = head * net->head_room * net->size, behind = at + net->keys_room * net->size;
            memcpy(there + at, here + at, keys);
            memcpy(there + behind, here + behind, values);
        }
    }
    PyBuffer_Release(&from);
    PyBuffer_Release(&to);
    Py_RETURN_NONE;
}

/* advance(tokens, slots, positions, logits): read each token into its slot at its position, which has been read up to
   there or is by tokens that stand before it here; fill in the logits after the last of them, as many as there is room for */
static PyObject *past_advance(Past *self, PyObject *const *args, Py_ssize_t n_args)
{
    Py_buffer tokens, slots, positions, logits;
    if (n_args != 4) {
        PyErr_SetString(PyExc_TypeError, "advance takes tokens, slots, positions and room for logits");
        return NULL;
    }
    if (require_idle(self) < 0) {
        return NULL;
    }
    const Decoder *net = self->net;
    if (get_indices(args[0], &tokens, -1, net->n_tokens, "tokens") < 0) {
        return NULL;
    }
    Py_ssize_t n = tokens.len / 8;
    if (get_indices(args[1], &slots, n, self->n_slots, "slots") < 0) {
        goto without_slots;
    }
    if (get_indices(args[2], &positions, n, net->context, "positions") < 0) {
        goto without_positions;
    }
    if (get_numbers(args[3], &logits, PyBUF_WRITABLE, net->is_double ? "d" : "f", net->size, -1, "logits") < 0) {
        goto without_logits;
    }
    Py_ssize_t n_wanted = logits.len / net->size / net->vocab_size;
    if (n_wanted > n || logits.len != n_wanted * net->vocab_size * net->size) {
        PyErr_SetString(PyExc_ValueError, "logits have to be whole rows, of as many tokens at most as there are");
        goto without_room;
    }
    void *room = make_room(net->all_room, net->size);
    if (room == NULL) {
        goto without_room;
    }
    self->is_busy = 1;
    Py_BEGIN_ALLOW_THREADS
    char *out = logits.buf;
    for (Py_ssize_t at = 0; at < n; at += AT_ONCE) {
        Py_ssize_t some = n - at < AT_ONCE ? n - at : AT_ONCE, first = n - n_wanted - at;
        first = first < 0 ? 0 : first < some ? first : some;
        net->pass(net, self->slots, some, (const int64_t *)tokens.buf + at, (const int64_t *)slots.buf + at,
                  (const int64_t *)positions.buf + at, first, out, room);
        out += (some - first) * net->vocab_size * net->size;
    }
    Py_END_ALLOW_THREADS
    self->is_busy = 0;
    free(room);
without_room:
    PyBuffer_Release(&logits);
without_logits:
    PyBuffer_Release(&positions);
without_positions:
    PyBuffer_Release(&slots);
without_slots:
    PyBuffer_Release(&tokens);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef past_methods[] = {
    {"reserve", (PyCFunction)past_reserve, METH_O, "Let there be at least so many slots."},
    {"copy", (PyCFunction)past_copy, METH_VARARGS, "Copy the first positions of slots into others."},
    {"advance", (PyCFunction)(void (*)(void))past_advance, METH_FASTCALL, "Read tokens, and fill in logits after the last."},
    {NULL},
};

static PyTypeObject PastType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pellucid.models.sequences._decoder.Past",
    .tp_doc = "Keys and values of what was read, in slots of one sequence each.",
    .tp_basicsize = sizeof(Past),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)past_init,
    .tp_dealloc = (destructor)past_dealloc,
    .tp_methods = past_methods,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_decoder", "A transformer token by token, compiled.", -1,
                                        NULL};

PyMODINIT_FUNC PyInit__decoder(void)
{
    if (PyType_Ready(&DecoderType) < 0 || PyType_Ready(&PastType) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddObjectRef(module, "Decoder", (PyObject *)&DecoderType) < 0 ||
                           PyModule_AddObjectRef(module, "Past", (PyObject *)&PastType) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
