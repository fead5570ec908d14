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

/* Two matrices as what comes in, one on its side, and five squares; see make_orthogonal and those who call it. */
static Py_ssize_t room_for(const Shape *s)
{
    return 2 * s->whole_rows * (s->whole_columns + GAP) + (s->whole_columns + 5 * s->whole_rows) * (s->whole_rows + GAP);
}

typedef struct {
    const float *coefficients; /* three for each Newton–Schulz step */
    Py_ssize_t n_steps;
    int is_tall;
    float kept, levelling, least_square, shrunk, rate;
} Settings;

static void copy(Py_ssize_t rows, Py_ssize_t columns, Matrix from, Matrix to)
{
    for (Py_ssize_t i = 0; i < rows; i++) {
        memcpy(to.numbers + i * to.stride, from.numbers + i * from.stride, columns * sizeof(float));
    }
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

static int fail(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

static int check_sizes(const Py_buffer *numbers, const Py_buffer *coefficients, Py_ssize_t rows, Py_ssize_t columns)
{
    if (rows < 1 || columns < rows || numbers->len % (rows * columns * 4) || coefficients->len < 12 ||
        coefficients->len % 12) {
        return fail("matrices that are no taller than wide, and three coefficients for each step");
    }
    return has_avx2() ? 0 : fail("this processor has no AVX2");
}

/* Of a step: all that is None where only to is to be written. */
typedef struct {
    Py_buffer from, to, momentum, squares, coefficients;
    Py_ssize_t rows, columns;
    int is_tall, is_narrow;
    float kept, levelling, least_square, shrunk, rate;
} Given;

static void release(Given *given)
{
    Py_buffer *all[] = {&given->from, &given->to, &given->momentum, &given->squares, &given->coefficients};
    for (int i = 0; i < 5; i++) {
        if (all[i]->obj) {
            PyBuffer_Release(all[i]);
        }
    }
}

static PyObject *run(const Given *given, int is_step)
{
#if defined(__x86_64__)
    const Py_ssize_t rows = given->rows, columns = given->columns, size = rows * columns;
    const int is_wide = has_avx512() && !given->is_narrow && rows % WIDE == 0; /* else tiles would be padding */
    const Shape s = shape_of(rows, columns, is_wide ? WIDE : NARROW);
    const Settings settings = {given->coefficients.buf, given->coefficients.len / 12, given->is_tall,
                               given->kept,             given->levelling,             given->least_square,
                               given->shrunk,           given->rate};
    float *room = malloc(room_for(&s) * sizeof(float));
    if (!room) {
        return PyErr_NoMemory();
    }
    if (s.whole_rows != rows || s.whole_columns != columns) {
        memset(room, 0, room_for(&s) * sizeof(float)); /* what pads a matrix is not written over */
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < given->from.len / 4 / size; i++) {
        const float *from = (const float *)given->from.buf + i * size;
        float *to = (float *)given->to.buf + i * size;
        if (is_step) {
            float *momentum = (float *)given->momentum.buf + i * size;
            float *squares = (float *)given->squares.buf + i * (given->is_tall ? columns : rows);
            (is_wide ? avx512_step : avx2_step)(&s, from, momentum, squares, to, &settings, room);
        }
        else {
            (is_wide ? avx512_orthogonalize : avx2_orthogonalize)(&s, from, &settings, to, room);
        }
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
    Given given = {0};
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*w*nny*|p", &given.from, &given.to, &given.rows, &given.columns, &given.coefficients,
                         &given.is_narrow) &&
        check_sizes(&given.from, &given.coefficients, given.rows, given.columns) == 0) {
        if (given.from.len != given.to.len) {
            fail("matrices that are no taller than wide, and three coefficients for each step");
        }
        else {
            made = run(&given, 0);
        }
    }
    release(&given);
    return made;
}

/* step(gradient, parameter, momentum, squares, rows, columns, is_tall, coefficients, kept, levelling, least_square, shrunk,
   rate, is_narrow): writes parameter, momentum and squares. rows and columns: as they lie, in whole vectors. */
static PyObject *step(PyObject *module, PyObject *args)
{
    (void)module;
    Given given = {0};
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*w*w*w*nnpy*fffff|p", &given.from, &given.to, &given.momentum, &given.squares, &given.rows,
                         &given.columns, &given.is_tall, &given.coefficients, &given.kept, &given.levelling,
                         &given.least_square, &given.shrunk, &given.rate, &given.is_narrow) &&
        check_sizes(&given.from, &given.coefficients, given.rows, given.columns) == 0) {
        const Py_ssize_t units = given.is_tall ? given.rows : given.columns; /* numbers of each that is levelled */
        if (given.rows % 16 || given.columns % 16 || given.from.len != given.to.len ||
            given.from.len != given.momentum.len || given.from.len != given.squares.len * units) {
            fail("sizes that do not fit each other, or no whole vectors");
        }
        else {
            made = run(&given, 1);
        }
    }
    release(&given);
    return made;
}

static PyMethodDef methods[] = {{"orthogonalize", orthogonalize, METH_VARARGS, "Singular values near 1."},
                                {"step", step, METH_VARARGS, "A step of Muon with matrices of one shape."},
                                {"is_supported", is_supported, METH_NOARGS, "Whether this processor has what it needs."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_orthogonalize", "Muon's Newton–Schulz steps, compiled.",
                                        -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__orthogonalize(void) { return PyModule_Create(&definition); }
