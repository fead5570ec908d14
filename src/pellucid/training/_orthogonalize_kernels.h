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

/* made = x with all singular values near 1; both are in whole tiles, padded by zeros. room: as many numbers as room_for says. */
INLINE void NAME(make_orthogonal)(const Shape *s, Matrix x, const float *coefficients, Py_ssize_t n_steps, Matrix made,
                                  float *room)
{
    const Py_ssize_t n = s->whole_rows, square = n * (n + GAP);
    Matrix gram = {room, n + GAP}, polynomial = {room + square, n + GAP}, product = {room + 2 * square, n + GAP};
    Matrix part = {room + 3 * square, n + GAP}, other = {room + 4 * square, n + GAP}, swapped;
    Matrix turned = {room + 5 * square, n + GAP};
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
    NAME(multiply)(n, n, s->whole_columns, product, x, made, 0);
}

/* The momentum goes on towards the gradient, which stands in x; x becomes the gradient, and so much of the way back to the
   momentum as is kept of it. */
INLINE void NAME(look_ahead)(const Shape *s, Matrix x, float *momentum, float kept)
{
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        float *row = x.numbers + i * x.stride, *held = momentum + i * s->columns;
        for (Py_ssize_t j = 0; j < s->columns; j += LANES) {
            VEC gradient = LOAD(row + j), m = LOAD(held + j);
            m += (gradient - m) * (1 - kept);
            STORE(held + j, m);
            STORE(row + j, gradient + (m - gradient) * kept);
        }
    }
}

/* See level_rows. by_column: of each column, and not of each row. scales: room for a number of each. */
INLINE void NAME(level)(const Shape *s, Matrix update, float *squares, int by_column, float levelling, float least,
                        float *scales)
{
    const Py_ssize_t n = by_column ? s->columns : s->rows, n_each = by_column ? s->rows : s->columns;
    double before = 0, after = 0;
    memset(scales, 0, n * sizeof(float));
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        VEC sums = {0};
        for (Py_ssize_t j = 0; j < s->columns; j += LANES) {
            VEC x = LOAD(update.numbers + i * update.stride + j);
            if (by_column) {
                STORE(scales + j, LOAD(scales + j) + x * x);
            }
            else {
                sums += x * x;
            }
        }
        for (int lane = 0; lane < LANES && !by_column; lane++) {
            scales[i] += sums[lane];
        }
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        const float now = scales[i] / (float)n_each;
        squares[i] += (now - squares[i]) * (1 - levelling);
        const float usual = squares[i] > least ? squares[i] : least;
        before += now, after += now / usual;
        scales[i] = 1 / sqrtf(usual);
    }
    const float norm = (float)sqrt(before / (after > 1e-30 ? after : 1e-30));
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        for (Py_ssize_t j = 0; j < s->columns; j += LANES) {
            float *row = update.numbers + i * update.stride + j;
            VEC one = by_column ? LOAD(scales + j) * norm : (VEC){0} + scales[i] * norm;
            STORE(row, LOAD(row) * one);
        }
    }
}

/* parameter = shrunk · parameter + rate · update, all (rows, columns) */
INLINE void NAME(move)(Py_ssize_t rows, Py_ssize_t columns, Matrix update, float *parameter, float shrunk, float rate)
{
    for (Py_ssize_t i = 0; i < rows; i++) {
        for (Py_ssize_t j = 0; j < columns; j += LANES) {
            float *row = parameter + i * columns + j;
            STORE(row, LOAD(row) * shrunk + LOAD(update.numbers + i * update.stride + j) * rate);
        }
    }
}

static TARGET void NAME(orthogonalize)(const Shape *s, const float *from, const Settings *settings, float *to, float *room)
{
    Matrix x = {room, s->whole_columns + GAP}, made = {room + s->whole_rows * x.stride, x.stride};
    copy(s->rows, s->columns, (Matrix){(float *)from, s->columns}, x);
    NAME(make_orthogonal)(s, x, settings->coefficients, settings->n_steps, made, made.numbers + s->whole_rows * x.stride);
    copy(s->rows, s->columns, made, (Matrix){to, s->columns});
}

/* One step of Muon with one matrix. is_tall: the parameter and its gradient are (columns, rows). */
static TARGET void NAME(step)(const Shape *s, const float *gradient, float *momentum, float *squares, float *parameter,
                              const Settings *settings, float *room)
{
    Matrix x = {room, s->whole_columns + GAP}, made = {room + s->whole_rows * x.stride, x.stride};
    float *rest = made.numbers + s->whole_rows * x.stride;
    if (settings->is_tall) {
        transpose(s->columns, s->rows, (Matrix){(float *)gradient, s->rows}, x);
    }
    else {
        copy(s->rows, s->columns, (Matrix){(float *)gradient, s->columns}, x);
    }
    NAME(look_ahead)(s, x, momentum, settings->kept);
    NAME(make_orthogonal)(s, x, settings->coefficients, settings->n_steps, made, rest);
    NAME(level)(s, made, squares, settings->is_tall, settings->levelling, settings->least_square, rest);
    if (settings->is_tall) {
        Matrix upright = {rest, s->whole_rows + GAP};
        transpose(s->whole_rows, s->whole_columns, made, upright);
        NAME(move)(s->columns, s->rows, upright, parameter, settings->shrunk, settings->rate);
    }
    else {
        NAME(move)(s->rows, s->columns, made, parameter, settings->shrunk, settings->rate);
    }
}

#undef VEC
#undef LOAD
#undef STORE
#undef COLUMNS
#undef INLINE
