/* Newton–Schulz steps of Muon on a stack of matrices: the compiled twin of orthogonalize_by_torch.

   All that is multiplied before the last product is a polynomial of one symmetric matrix, so it is symmetric as well, and
   half of each product is enough. Tiles are summed up in registers, in an order that depends on nothing but the sizes.
   Single precision, one thread; processors with AVX2, and a copy with vectors twice as long for those with AVX-512. */

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

#define NARROW 16 /* columns of a tile, by AVX2 */
#define WIDE 32   /* and by AVX-512 */
#define GAP 16    /* numbers behind each row: rows of a power of two would all fall onto the same few lines of the cache */

typedef struct {
    float *numbers;
    Py_ssize_t stride; /* from a row to the next */
} Matrix;

typedef struct {
    Py_ssize_t rows, columns;             /* of a matrix, */
    Py_ssize_t whole_rows, whole_columns; /* and in whole tiles */
} Shape;

static Py_ssize_t whole(Py_ssize_t n, Py_ssize_t unit) { return (n + unit - 1) / unit * unit; }

static Shape shape_of(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t unit)
{
    return (Shape){rows, columns, whole(rows, unit), whole(columns, unit)};
}

static Py_ssize_t room_for(const Shape *s)
{
    return s->whole_rows * (s->whole_columns + GAP) + s->whole_columns * (s->whole_rows + GAP) +
           5 * s->whole_rows * (s->whole_rows + GAP);
}

/* Four by four numbers to where their rows are columns. */
static void transpose_tile(const float *from, Py_ssize_t stride, float *to, Py_ssize_t to_stride)
{
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + stride);
    __m128 c = _mm_loadu_ps(from + 2 * stride), d = _mm_loadu_ps(from + 3 * stride);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a), _mm_storeu_ps(to + to_stride, b);
    _mm_storeu_ps(to + 2 * to_stride, c), _mm_storeu_ps(to + 3 * to_stride, d);
}

static void transpose(Py_ssize_t n_rows, Py_ssize_t n_columns, Matrix from, Matrix to)
{
    for (Py_ssize_t i = 0; i < n_rows; i += 4) {
        for (Py_ssize_t j = 0; j < n_columns; j += 4) {
            transpose_tile(from.numbers + i * from.stride + j, from.stride, to.numbers + j * to.stride + i, to.stride);
        }
    }
}

/* What stands below the diagonal, above it as well: so nothing depends on how tiles were cut. */
static void mirror(Py_ssize_t n, Matrix m)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = i / 4 * 4; j < i; j++) {
            m.numbers[j * m.stride + i] = m.numbers[i * m.stride + j];
        }
    }
    for (Py_ssize_t i = 0; i < n; i += 4) {
        for (Py_ssize_t j = 0; j < i; j += 4) {
            transpose_tile(m.numbers + i * m.stride + j, m.stride, m.numbers + j * m.stride + i, m.stride);
        }
    }
}

static float norm_of(Py_ssize_t n, Matrix m)
{
    double total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        __m128 sums[2] = {_mm_setzero_ps(), _mm_setzero_ps()};
        for (Py_ssize_t j = 0; j < n; j += 4) {
            __m128 x = _mm_loadu_ps(m.numbers + i * m.stride + j);
            sums[j / 4 % 2] = _mm_add_ps(sums[j / 4 % 2], _mm_mul_ps(x, x));
        }
        for (int lane = 0; lane < 8; lane++) {
            total += sums[lane / 4][lane % 4];
        }
    }
    return (float)sqrt(total);
}

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)

#define NAME(x) JOIN(avx2_, x)
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 4
#define BROADCAST(from) ((NAME(vec))_mm256_broadcast_ss(from))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "_orthogonalize_kernels.h"
#undef NAME
#undef TARGET
#undef LANES
#undef ROWS
#undef BROADCAST
#undef FUSED

#define NAME(x) JOIN(avx512_, x)
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define ROWS 8
#define BROADCAST(from) ((NAME(vec))_mm512_set1_ps(*(from)))
#define FUSED(a, b, c) ((NAME(vec))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "_orthogonalize_kernels.h"
#undef NAME
#undef TARGET
#undef LANES
#undef ROWS
#undef BROADCAST
#undef FUSED
#endif

static int has_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static int has_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") != 0;
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
                     Py_ssize_t columns, int is_narrow)
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
    const int is_wide = has_avx512() && !is_narrow && rows % WIDE == 0; /* else tiles would be padding */
    const Shape s = shape_of(rows, columns, is_wide ? WIDE : NARROW);
    float *room = malloc(room_for(&s) * sizeof(float));
    if (!room) {
        return PyErr_NoMemory();
    }
    if (s.whole_rows != rows || s.whole_columns != columns) {
        memset(room, 0, room_for(&s) * sizeof(float));
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < from->len / 4; at += rows * columns) {
        (is_wide ? avx512_orthogonalize : avx2_orthogonalize)(&s, (const float *)from->buf + at, coefficients->buf,
                                                              coefficients->len / 12, (float *)to->buf + at, room);
    }
    Py_END_ALLOW_THREADS
    free(room);
#endif
    Py_RETURN_NONE;
}

/* orthogonalize(from, to, rows, columns, coefficients, is_narrow): writes to; is_narrow keeps to AVX2. */
static PyObject *orthogonalize(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer from = {0}, to = {0}, coefficients = {0};
    Py_ssize_t rows, columns;
    int is_narrow = 0;
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*w*nny*|p", &from, &to, &rows, &columns, &coefficients, &is_narrow)) {
        made = run(&from, &to, &coefficients, rows, columns, is_narrow);
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
