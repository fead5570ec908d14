/* Newton–Schulz steps of one matrix: _orthogonalize.c includes this once for each width of vectors.

   It wants NAME(x) for the names of this copy, TARGET for the processor, LANES numbers in a vector, ROWS of a tile, whose
   COLUMNS are two vectors, BROADCAST(from) for a vector of one number and FUSED(a, b, c) for a·b + c. Every sum is taken in
   an order that no width changes, so that all copies make the same bits. */

typedef float NAME(vec) __attribute__((vector_size(4 * LANES)));
typedef float NAME(loose) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define VEC NAME(vec)
#define LOAD(from) ((VEC) * (const NAME(loose) *)(from))
#define STORE(to, value) (*(NAME(loose) *)(to) = (NAME(loose))(value))
#define COLUMNS (2 * LANES)
#define INLINE static inline __attribute__((always_inline)) TARGET

/* out = a · b, (n_rows, depth) by (depth, n_columns), both in whole tiles. is_symmetric: what is made is, so that all above the
   diagonal is taken from below. */
INLINE void NAME(multiply)(Py_ssize_t n_rows, Py_ssize_t depth, Py_ssize_t n_columns, Matrix a, Matrix b, Matrix out,
                           int is_symmetric)
{
    for (Py_ssize_t j = 0; j < n_columns; j += COLUMNS) {
        for (Py_ssize_t i = is_symmetric ? j : 0; i < n_rows; i += ROWS) {
            const float *left = a.numbers + i * a.stride, *right = b.numbers + j;
            VEC sums[2][ROWS] = {{{0}}};
            for (Py_ssize_t k = 0; k < depth; k++, right += b.stride) {
                VEC first = LOAD(right), second = LOAD(right + LANES);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++) {
                    VEC one = BROADCAST(left + r * a.stride + k);
                    sums[0][r] = FUSED(one, first, sums[0][r]);
                    sums[1][r] = FUSED(one, second, sums[1][r]);
                }
            }
            float *to = out.numbers + i * out.stride + j;
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) {
                STORE(to + r * out.stride, sums[0][r]);
                STORE(to + r * out.stride + LANES, sums[1][r]);
            }
        }
    }
    if (is_symmetric) {
        mirror(n_rows, out);
    }
}

/* All numbers by a factor; what pads a row is 0 and stays so. */
INLINE void NAME(scale)(Py_ssize_t n, Matrix m, float factor)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < n; j += LANES) {
            float *row = m.numbers + i * m.stride + j;
            STORE(row, LOAD(row) * factor);
        }
    }
}

/* to = constant + linear · gram + square · gram² */
INLINE void NAME(make_polynomial)(Py_ssize_t n, Matrix gram, const float coefficients[3], Matrix to)
{
    NAME(multiply)(n, n, n, gram, gram, to, 1);
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < n; j += LANES) {
            float *row = to.numbers + i * to.stride + j;
            STORE(row, LOAD(row) * coefficients[2] + LOAD(gram.numbers + i * gram.stride + j) * coefficients[1]);
        }
        to.numbers[i * to.stride + i] += coefficients[0];
    }
}

/* room: as many numbers as room_for says, zeros at first where tiles are padded. */
static TARGET void NAME(orthogonalize)(const Shape *s, const float *from, const float *coefficients, Py_ssize_t n_steps,
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
    transpose(n, s->whole_columns, x, turned);
    NAME(multiply)(n, s->whole_columns, n, x, turned, gram, 1);
    float norm = norm_of(n, gram);
    norm = norm > 1e-14f ? norm : 1e-14f;
    NAME(scale)(n, gram, 1 / norm);
    for (Py_ssize_t step = 0; step < n_steps; step++) {
        if (step) { /* gram = polynomial · gram · polynomial */
            NAME(multiply)(n, n, n, polynomial, gram, part, 1);
            NAME(multiply)(n, n, n, part, polynomial, gram, 1);
        }
        NAME(make_polynomial)(n, gram, coefficients + 3 * step, step ? polynomial : product);
        if (step) {
            NAME(multiply)(n, n, n, polynomial, product, other, 1);
            swapped = product, product = other, other = swapped;
        }
        else {
            memcpy(polynomial.numbers, product.numbers, square * sizeof(float));
        }
    }
    NAME(scale)(n, product, 1 / sqrtf(norm));
    if (n == s->rows && s->whole_columns == s->columns) {
        NAME(multiply)(n, n, s->columns, product, x, (Matrix){to, s->columns}, 0);
        return;
    }
    NAME(multiply)(n, n, s->whole_columns, product, x, (Matrix){turned.numbers, s->whole_columns}, 0);
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        memcpy(to + i * s->columns, turned.numbers + i * s->whole_columns, s->columns * sizeof(float));
    }
}

#undef VEC
#undef LOAD
#undef STORE
#undef COLUMNS
#undef INLINE
