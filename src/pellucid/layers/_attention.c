/* Causal self-attention of rows of any lengths, all heads, with rotary positions: the compiled twin of attend_short_rows.

   Rows stand behind one another without padding: row r has the tokens starts[r] to starts[r + 1]. Of each token queries,
   keys and values of all heads stand side by side. Single precision; one thread. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__)
#error "vectors are written as GCC and Clang know them"
#endif

#define LANES 8
#define TILE 4
#define ROUNDER 12582912.0f /* 1.5 · 2^23 */

typedef struct {
    Py_ssize_t time, head_width, width, stride; /* stride: from a token to the next, in numbers */
    Py_ssize_t rows, columns, room;             /* time in whole tiles and in whole vectors, head_width in whole vectors */
    float scale;
} Shape;

static Py_ssize_t whole(Py_ssize_t n, Py_ssize_t unit) { return (n + unit - 1) / unit * unit; }

static Shape shape_of(Py_ssize_t time, Py_ssize_t width, Py_ssize_t n_heads)
{
    Shape s = {time, width / n_heads, width, 3 * width, whole(time, TILE), whole(time, LANES), 0, 0};
    s.room = whole(s.head_width, LANES);
    s.scale = (float)(1 / sqrt((double)s.head_width));
    return s;
}

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) > (a))){__VA_ARGS__})
#endif

/* Of each position cosines twice each, and sines with a minus before every first: as vectors turn pairs by them. */
static void spread_angles(const Shape *s, const float *angles, float *turns)
{
    for (Py_ssize_t i = 0; i < s->time; i++) {
        float *cosines = turns + 2 * i * s->room, *sines = cosines + s->room;
        for (Py_ssize_t c = 0; c < s->room; c++) {
            const float *angle = angles + i * s->head_width + c / 2 * 2;
            cosines[c] = c < s->head_width ? angle[0] : 0;
            sines[c] = c < s->head_width ? (c % 2 ? angle[1] : -angle[1]) : 0;
        }
    }
}

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)

#define NAME(x) JOIN(plain_, x)
#define TARGET
#define FUSED(a, b, c) ((a) * (b) + (c))
#include "_attention_kernels.h"
#undef NAME
#undef TARGET
#undef FUSED

#if defined(__x86_64__)
#include <immintrin.h>
#define NAME(x) JOIN(avx2_, x)
#define TARGET __attribute__((target("avx2,fma")))
#define FUSED(a, b, c) ((NAME(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "_attention_kernels.h"
#undef NAME
#undef TARGET
#undef FUSED
#endif

static int has_avx2(int is_plain)
{
#if defined(__x86_64__)
    return !is_plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    (void)is_plain;
    return 0;
#endif
}

typedef struct {
    Py_buffer parts, starts, angles, weights, mixed, of_parts;
    Py_ssize_t n_rows, width, n_heads, longest, n_held;
} Given;

static void release(Given *given)
{
    Py_buffer *all[] = {&given->parts, &given->starts, &given->angles, &given->weights, &given->mixed, &given->of_parts};
    for (int i = 0; i < 6; i++) {
        if (all[i]->obj) {
            PyBuffer_Release(all[i]);
        }
    }
}

static int fail(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

/* Whether all that was given fits together: nothing is read or written outside of it. */
static int check(Given *given)
{
    const int64_t *starts = given->starts.buf;
    given->n_rows = given->starts.len / 8 - 1;
    if (given->n_rows < 0 || given->n_heads < 1 || given->width < 1 || given->width % given->n_heads) {
        return fail("no rows, or heads that do not share the width");
    }
    Py_ssize_t n = given->n_rows ? starts[given->n_rows] : 0, held = 0;
    for (Py_ssize_t r = 0; r < given->n_rows; r++) {
        Py_ssize_t time = starts[r + 1] - starts[r];
        if (starts[0] != 0 || time < 0 || time > INT32_MAX) {
            return fail("rows stand behind one another from 0 on");
        }
        given->longest = time > given->longest ? time : given->longest;
        held += given->n_heads * whole(time, TILE) * whole(time, LANES);
    }
    if (given->parts.len != n * 3 * given->width * 4 || given->mixed.len != n * given->width * 4 ||
        given->weights.len != held * 4 || (given->of_parts.obj && given->of_parts.len != given->parts.len)) {
        return fail("sizes that do not fit the rows");
    }
    if (given->angles.obj &&
        (given->angles.len < given->longest * (given->width / given->n_heads) * 4 || given->width / given->n_heads % 2)) {
        return fail("angles for each position, and heads of even width");
    }
    return 0;
}

static PyObject *run(Given *given, int is_backward, int is_plain)
{
    if (check(given) < 0) {
        return NULL;
    }
    Shape most = shape_of(given->longest, given->width, given->n_heads);
    const Py_ssize_t n_room = 6 * most.columns * most.room + most.rows * most.columns;
    float *room = malloc((n_room + 2 * most.time * most.room + 1) * sizeof(float));
    if (!room) {
        return PyErr_NoMemory();
    }
    const int64_t *starts = given->starts.buf;
    const float *turns = NULL;
    if (given->angles.obj) {
        spread_angles(&most, given->angles.buf, room + n_room);
        turns = room + n_room;
    }
    float *weights = given->weights.buf;
    int is_fast = has_avx2(is_plain);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t r = 0; r < given->n_rows; r++) {
        Shape s = shape_of(starts[r + 1] - starts[r], given->width, given->n_heads);
        for (Py_ssize_t head = 0; head < given->n_heads; head++) {
            Py_ssize_t at = head * s.head_width;
            const float *parts = (const float *)given->parts.buf + starts[r] * s.stride + at;
            float *mixed = (float *)given->mixed.buf + starts[r] * s.width + at;
            float *of_parts = is_backward ? (float *)given->of_parts.buf + starts[r] * s.stride + at : NULL;
#if defined(__x86_64__)
            if (is_fast && is_backward) {
                avx2_backward(&s, parts, turns, weights, mixed, of_parts, room);
            }
            else if (is_fast) {
                avx2_forward(&s, parts, turns, weights, mixed, room);
            }
#endif
            if (!is_fast && is_backward) {
                plain_backward(&s, parts, turns, weights, mixed, of_parts, room);
            }
            else if (!is_fast) {
                plain_forward(&s, parts, turns, weights, mixed, room);
            }
            weights += s.rows * s.columns;
        }
    }
    Py_END_ALLOW_THREADS
    free(room);
    Py_RETURN_NONE;
}

/* forward(parts, starts, n_heads, width, angles, weights, mixed, is_plain): writes weights and mixed. */
static PyObject *forward(PyObject *module, PyObject *args)
{
    (void)module;
    Given given = {0};
    int is_plain = 0;
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*y*nnz*w*w*|p", &given.parts, &given.starts, &given.n_heads, &given.width, &given.angles,
                         &given.weights, &given.mixed, &is_plain)) {
        made = run(&given, 0, is_plain);
    }
    release(&given);
    return made;
}

/* backward(parts, starts, n_heads, width, angles, weights, of_mixed, of_parts, is_plain): writes of_parts. */
static PyObject *backward(PyObject *module, PyObject *args)
{
    (void)module;
    Given given = {0};
    int is_plain = 0;
    PyObject *made = NULL;
    if (PyArg_ParseTuple(args, "y*y*nnz*y*y*w*|p", &given.parts, &given.starts, &given.n_heads, &given.width, &given.angles,
                         &given.weights, &given.mixed, &given.of_parts, &is_plain)) {
        made = run(&given, 1, is_plain);
    }
    release(&given);
    return made;
}

static PyMethodDef methods[] = {{"forward", forward, METH_VARARGS, "Attention of rows of any lengths."},
                                {"backward", backward, METH_VARARGS, "What of it goes back."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_attention", "Causal self-attention, compiled.", -1,
                                        methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__attention(void) { return PyModule_Create(&definition); }
