/* Newton–Schulz steps of Muon on a stack of matrices: the compiled twin of orthogonalize_by_torch.

   All that is multiplied before the last product is a polynomial of one symmetric matrix, so it is symmetric as well, and
   half of each product is enough. Tiles of 4 rows by 16 columns are summed up in registers, in an order that depends on
   nothing but the sizes. Single precision, one thread; processors with AVX2. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__)
#error "vectors are written as GCC and Clang know them"
#endif

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 8
#define ROWS 4
#define COLUMNS 16
#define GAP 16 /* numbers behind each row: rows of a power of two would all fall onto the same few lines of the cache */
#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) > (a))){__VA_ARGS__})
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define LOAD(from) ((vec) * (const loose *)(from))
#define STORE(to, value) (*(loose *)(to) = (loose)(value))

typedef struct {
    float *numbers;
    Py_ssize_t stride; /* from a row to the next */
} Matrix;

static Py_ssize_t whole(Py_ssize_t n, Py_ssize_t unit) { return (n + unit - 1) / unit * unit; }

/* Four rows of eight numbers as eight rows of four. */
INLINE void store_transposed(const vec rows[ROWS], float *to, Py_ssize_t stride)
{
    vec a = SHUFFLED(rows[0], rows[1], 0, 8, 1, 9, 4, 12, 5, 13), b = SHUFFLED(rows[2], rows[3], 0, 8, 1, 9, 4, 12, 5, 13);
    vec c = SHUFFLED(rows[0], rows[1], 2, 10, 3, 11, 6, 14, 7, 15), d = SHUFFLED(rows[2], rows[3], 2, 10, 3, 11, 6, 14, 7, 15);
    vec turned[ROWS] = {SHUFFLED(a, b, 0, 1, 8, 9, 4, 5, 12, 13), SHUFFLED(a, b, 2, 3, 10, 11, 6, 7, 14, 15),
                        SHUFFLED(c, d, 0, 1, 8, 9, 4, 5, 12, 13), SHUFFLED(c, d, 2, 3, 10, 11, 6, 7, 14, 15)};
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) { /* each holds a row and the one four below it */
        _mm_storeu_ps(to + r * stride, _mm256_castps256_ps128((__m256)turned[r]));
        _mm_storeu_ps(to + (r + 4) * stride, _mm256_extractf128_ps((__m256)turned[r], 1));
    }
}

/* out = a · b, (n_rows, depth) by (depth, n_columns), both in whole tiles. is_symmetric: what is made is, so that tiles above
   the diagonal are taken from those below. */
INLINE void multiply(Py_ssize_t n_rows, Py_ssize_t depth, Py_ssize_t n_columns, Matrix a, Matrix b, Matrix out,
                     int is_symmetric)
{
    for (Py_ssize_t j = 0; j < n_columns; j += COLUMNS) {
        for (Py_ssize_t i = is_symmetric ? j : 0; i < n_rows; i += ROWS) {
            const float *left = a.numbers + i * a.stride, *right = b.numbers + j;
            vec sums[2][ROWS] = {{{0}}};
            for (Py_ssize_t k = 0; k < depth; k++, right += b.stride) {
                vec first = LOAD(right), second = LOAD(right + LANES);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++) {
                    __m256 one = _mm256_broadcast_ss(left + r * a.stride + k);
                    sums[0][r] = (vec)_mm256_fmadd_ps(one, (__m256)first, (__m256)sums[0][r]);
                    sums[1][r] = (vec)_mm256_fmadd_ps(one, (__m256)second, (__m256)sums[1][r]);
                }
            }
            float *to = out.numbers + i * out.stride + j;
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                STORE(to + r * out.stride, sums[0][r]);
                STORE(to + r * out.stride + LANES, sums[1][r]);
            }
            if (is_symmetric) {
                float *mirrored = out.numbers + j * out.stride + i;
                store_transposed(sums[0], mirrored, out.stride);
                store_transposed(sums[1], mirrored + LANES * out.stride, out.stride);
            }
        }
    }
}

/* All numbers by a factor; what pads a row is 0 and stays so. */
INLINE void scale(Py_ssize_t n, Matrix m, float factor)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < n; j += LANES) {
            float *at = m.numbers + i * m.stride + j;
            STORE(at, LOAD(at) * factor);
        }
    }
}

INLINE float norm_of(Py_ssize_t n, Matrix m)
{
    double total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        vec sums = {0};
        for (Py_ssize_t j = 0; j < n; j += LANES) {
            vec x = LOAD(m.numbers + i * m.stride + j);
            sums += x * x;
        }
        for (int lane = 0; lane < LANES; lane++) {
            total += sums[lane];
        }
    }
    return (float)sqrt(total);
}

/* to = constant + linear · gram + square · gram² */
INLINE void make_polynomial(Py_ssize_t n, Matrix gram, const float coefficients[3], Matrix to)
{
    multiply(n, n, n, gram, gram, to, 1);
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < n; j += LANES) {
            float *at = to.numbers + i * to.stride + j;
            STORE(at, LOAD(at) * coefficients[2] + LOAD(gram.numbers + i * gram.stride + j) * coefficients[1]);
        }
        to.numbers[i * to.stride + i] += coefficients[0];
    }
}

typedef struct {
    Py_ssize_t rows, columns;             /* of a matrix, */
    Py_ssize_t whole_rows, whole_columns; /* and in whole tiles */
} Shape;

static Py_ssize_t room_for(const Shape *s)
{
    return s->whole_rows * (s->whole_columns + GAP) + s->whole_columns * (s->whole_rows + GAP) +
           5 * s->whole_rows * (s->whole_rows + GAP);
}

/* room: as many numbers as room_for says, zeros at first where tiles are padded. */
static TARGET void orthogonalize_one(const Shape *s, const float *from, const float *coefficients, Py_ssize_t n_steps,
                                     float *to, float *room)
{
    const Py_ssize_t n = s->whole_rows, square = n * (n + GAP);
    Matrix x = {room, s->whole_columns + GAP};
    Matrix turned = {x.numbers + n * x.stride, n + GAP};
    float *next = turned.numbers + s->whole_columns * turned.stride;
    Matrix gram = {next, n + GAP}, polynomial = {next + square, n + GAP}, product = {next + 2 * square, n + GAP};
    Matrix part = {next + 3 * square, n + GAP}, other = {next + 4 * square, n + GAP}, swapped;
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        memcpy(x.numbers + i * x.stride, from + i * s->columns, s->columns * sizeof(float));
    }
    for (Py_ssize_t i = 0; i < n; i += ROWS) {
        for (Py_ssize_t j = 0; j < s->whole_columns; j += LANES) {
            const float *at = x.numbers + i * x.stride + j;
            vec rows[ROWS] = {LOAD(at), LOAD(at + x.stride), LOAD(at + 2 * x.stride), LOAD(at + 3 * x.stride)};
            store_transposed(rows, turned.numbers + j * turned.stride + i, turned.stride);
        }
    }
    multiply(n, s->whole_columns, n, x, turned, gram, 1);
    float norm = norm_of(n, gram);
    norm = norm > 1e-14f ? norm : 1e-14f;
    scale(n, gram, 1 / norm);
    for (Py_ssize_t step = 0; step < n_steps; step++) {
        if (step) { /* gram = polynomial · gram · polynomial */
            multiply(n, n, n, polynomial, gram, part, 1);
            multiply(n, n, n, part, polynomial, gram, 1);
        }
        make_polynomial(n, gram, coefficients + 3 * step, step ? polynomial : product);
        if (step) {
            multiply(n, n, n, polynomial, product, other, 1);
            swapped = product, product = other, other = swapped;
        }
        else {
            memcpy(polynomial.numbers, product.numbers, square * sizeof(float));
        }
    }
    scale(n, product, 1 / sqrtf(norm));
    if (n == s->rows && s->whole_columns == s->columns) {
        multiply(n, n, s->columns, product, x, (Matrix){to, s->columns}, 0);
        return;
    }
    multiply(n, n, s->whole_columns, product, x, (Matrix){turned.numbers, s->whole_columns}, 0);
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        memcpy(to + i * s->columns, turned.numbers + i * s->whole_columns, s->columns * sizeof(float));
    }
}
#endif

static int has_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static PyObject *is_supported(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(has_avx2());
}

static PyObject *run(const Py_buffer *from, const Py_buffer *to, const Py_buffer *coefficients, Py_ssize_t rows,
                     Py_ssize_t columns)
{
    if (rows < 1 || columns < rows || from->len != to->len || from->len % (rows * columns * 4) || coefficients->len < 12 ||
        coefficients->len % 12) {
        PyErr_SetString(PyExc_ValueError, "matrices that are no taller than wide, and three coefficients for each step");
        return NULL;
    }
    if (!has_avx2()) {
        PyErr_SetString(PyExc_ValueError, "this processor has no AVX2");
        return NULL;
    }
#if defined(__x86_64__)
    const Shape s = {rows, columns, whole(rows, COLUMNS), whole(columns, COLUMNS)};
    float *room = malloc(room_for(&s) * sizeof(float));
    if (!room) {
        return PyErr_NoMemory();
    }
    if (s.whole_rows != rows || s.whole_columns != columns) {
        memset(room, 0, room_for(&s) * sizeof(float));
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < from->len / 4; at += rows * columns) {
        orthogonalize_one(&s, (const float *)from->buf + at, coefficients->buf, coefficients->len / 12,
                          (float *)to->buf + at, room);
    }
    Py_END_ALLOW_THREADS
    free(room);
#endif
    Py_RETURN_NONE;
}

/* orthogonalize(from, to, rows, columns, coefficients): writes to. */
static PyObject *orthogonalize(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer from = {0}, to = {0}, coefficients = {0};
    Py_ssize_t rows, columns;
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*w*nny*", &from, &to, &rows, &columns, &coefficients)) {
        made = run(&from, &to, &coefficients, rows, columns);
    }
    Py_buffer *all[] = {&from, &to, &coefficients};
    for (int i = 0; i < 3; i++) {
        if (all[i]->obj) {
            PyBuffer_Release(all[i]);
        }
    }
    return made;
}

static PyMethodDef methods[] = {{"orthogonalize", orthogonalize, METH_VARARGS, "Singular values near 1."},
                                {"is_supported", is_supported, METH_NOARGS, "Whether this processor has what it needs."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_orthogonalize", "Muon's Newton–Schulz steps, compiled.",
                                        -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__orthogonalize(void) { return PyModule_Create(&definition); }
