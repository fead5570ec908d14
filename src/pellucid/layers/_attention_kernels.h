/* Causal self-attention of one row and one head, there and back: _attention.c includes this once for each kind of processor.

   It wants FUSED(a, b, c) for a·b + c, NAME(x) for the names of this copy and TARGET for the processor. Tokens are padded to
   whole TILEs of rows, and positions and numbers of a head to whole vectors, by zeros: so no loop has a rest. Every sum is
   taken in an order that depends on nothing but the row itself. */

typedef float NAME(vec) __attribute__((vector_size(4 * LANES)));
typedef int32_t NAME(ivec) __attribute__((vector_size(4 * LANES)));
typedef float NAME(loose) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define VEC NAME(vec)
#define LOAD(from) ((VEC) * (const NAME(loose) *)(from))
#define STORE(to, value) (*(NAME(loose) *)(to) = (NAME(loose))(value))
#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE VEC NAME(splat)(float v) { return (VEC){v, v, v, v, v, v, v, v}; }

INLINE VEC NAME(select)(NAME(ivec) mask, VEC a, VEC b)
{
    return (VEC)((mask & (NAME(ivec))a) | (~mask & (NAME(ivec))b));
}

/* Halves of a vector upon each other, then quarters, then neighbours: every lane gets the result. */
INLINE float NAME(sum)(VEC x)
{
    x += SHUFFLED(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
    x += SHUFFLED(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
    x += SHUFFLED(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
    return x[0];
}

INLINE VEC NAME(larger)(VEC a, VEC b) { return NAME(select)(a > b, a, b); }

INLINE float NAME(largest)(VEC x)
{
    x = NAME(larger)(SHUFFLED(x, x, 4, 5, 6, 7, 0, 1, 2, 3), x);
    x = NAME(larger)(SHUFFLED(x, x, 2, 3, 0, 1, 6, 7, 4, 5), x);
    x = NAME(larger)(SHUFFLED(x, x, 1, 0, 3, 2, 5, 4, 7, 6), x);
    return x[0];
}

/* exp of numbers that are not above 0: 2^n · exp(r) with |r| <= ln 2 / 2, and exp(r) by its series. */
INLINE VEC NAME(exp)(VEC x)
{
    x = NAME(select)(x < NAME(splat)(-87.0f), NAME(splat)(-87.0f), x);
    VEC shifted = FUSED(x, NAME(splat)(1.44269504f), NAME(splat)(ROUNDER)); /* n stands in the last bits */
    VEC n = shifted - NAME(splat)(ROUNDER);
    VEC r = FUSED(n, NAME(splat)(-0.693359375f), x);
    r = FUSED(n, NAME(splat)(2.12194440e-4f), r);
    VEC series = NAME(splat)(1.0f / 7) * r + 1.0f;
#pragma GCC unroll 8
    for (int term = 6; term >= 1; term--) {
        series = FUSED(series, r * NAME(splat)(1.0f / (float)term), NAME(splat)(1.0f));
    }
    return series * (VEC)(((NAME(ivec))shifted << 23) + (127 << 23));
}

/* Pairs of numbers turned by angles, or back by their negatives: cosines twice each, sines with the sign of their place. */
INLINE VEC NAME(turned)(VEC x, const float *cosines, const float *sines, float direction)
{
    VEC swapped = SHUFFLED(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
    return FUSED(x, LOAD(cosines), swapped * (LOAD(sines) * NAME(splat)(direction)));
}

/* The numbers of a head, token by token, turned and scaled; what pads them is 0. turns: of each position, `room` cosines and
   then as many sines; or NULL. */
INLINE void NAME(take_head)(const Shape *s, const float *from, const float *turns, float scale, float *to)
{
    for (Py_ssize_t i = 0; i < s->columns; i++) {
        float *row = to + i * s->room;
        for (Py_ssize_t c = 0; c < s->room; c += LANES) {
            VEC x = {0};
            if (i < s->time && c + LANES <= s->head_width) {
                x = LOAD(from + i * s->stride + c);
            }
            else if (i < s->time) {
                float few[LANES] = {0};
                memcpy(few, from + i * s->stride + c, (s->head_width - c) * sizeof(float));
                x = LOAD(few);
            }
            if (turns && i < s->time) {
                const float *at = turns + 2 * i * s->room + c;
                x = NAME(turned)(x, at, at + s->room, 1);
            }
            STORE(row + c, x * NAME(splat)(scale));
        }
    }
}

/* Slopes of a head to where they belong, scaled and turned back. */
INLINE void NAME(put_head)(const Shape *s, const float *from, const float *turns, float scale, float *to)
{
    for (Py_ssize_t i = 0; i < s->time; i++) {
        for (Py_ssize_t c = 0; c < s->room; c += LANES) {
            VEC x = LOAD(from + i * s->room + c);
            if (turns) {
                const float *at = turns + 2 * i * s->room + c;
                x = NAME(turned)(x, at, at + s->room, -1);
            }
            x *= NAME(splat)(scale);
            if (c + LANES <= s->head_width) {
                STORE(to + i * s->stride + c, x);
            }
            else {
                memcpy(to + i * s->stride + c, &x, (s->head_width - c) * sizeof(float));
            }
        }
    }
}

/* (columns, room) -> (room, columns), eight by eight. */
INLINE void NAME(transpose)(const Shape *s, const float *from, float *to)
{
    for (Py_ssize_t i = 0; i < s->columns; i += LANES) {
        for (Py_ssize_t c = 0; c < s->room; c += LANES) {
            VEC x[8], y[8];
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) {
                x[r] = LOAD(from + (i + r) * s->room + c);
            }
#pragma GCC unroll 4
            for (int r = 0; r < 8; r += 2) { /* neighbours */
                y[r] = SHUFFLED(x[r], x[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
                y[r + 1] = SHUFFLED(x[r], x[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
            }
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) { /* pairs */
                int first = r / 4 * 4 + r % 2;
                x[r] = r % 4 < 2 ? SHUFFLED(y[first], y[first + 2], 0, 1, 8, 9, 4, 5, 12, 13)
                                 : SHUFFLED(y[first], y[first + 2], 2, 3, 10, 11, 6, 7, 14, 15);
            }
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) { /* halves */
                VEC half = r < 4 ? SHUFFLED(x[r], x[r + 4], 0, 1, 2, 3, 8, 9, 10, 11)
                                 : SHUFFLED(x[r - 4], x[r], 4, 5, 6, 7, 12, 13, 14, 15);
                STORE(to + (c + r) * s->columns + i, half);
            }
        }
    }
}

/* How many vectors hold the positions that any row of the tile may look at. */
INLINE Py_ssize_t NAME(reach)(Py_ssize_t tile) { return (tile + TILE + LANES - 1) / LANES; }

/* A TILE of rows by n vectors (1 or 2, known when it is compiled): Σ over k of left[r · row + k · next] times the vectors at
   right + k · stride. Two vectors keep as many sums under way as a processor needs to have one ready in each cycle. */
INLINE void NAME(tile)(Py_ssize_t depth, const float *left, Py_ssize_t row, Py_ssize_t next, const float *right,
                       Py_ssize_t stride, int n, float *out, Py_ssize_t out_row)
{
    VEC sums[2][TILE] = {{{0}}};
    for (Py_ssize_t k = 0; k < depth; k++, left += next, right += stride) {
        VEC first = LOAD(right), second = n > 1 ? LOAD(right + LANES) : first;
#pragma GCC unroll 4
        for (int r = 0; r < TILE; r++) {
            VEC one = NAME(splat)(left[r * row]);
            sums[0][r] = FUSED(one, first, sums[0][r]);
            sums[1][r] = n > 1 ? FUSED(one, second, sums[1][r]) : sums[1][r];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < TILE; r++) {
        STORE(out + r * out_row, sums[0][r]);
        if (n > 1) {
            STORE(out + r * out_row + LANES, sums[1][r]);
        }
    }
}

/* The same for as many vectors as there are. */
INLINE void NAME(tiles)(Py_ssize_t depth, const float *left, Py_ssize_t row, Py_ssize_t next, const float *right,
                        Py_ssize_t stride, Py_ssize_t n_vectors, float *out, Py_ssize_t out_row)
{
    Py_ssize_t v = 0;
    for (; v + 2 <= n_vectors; v += 2) {
        NAME(tile)(depth, left, row, next, right + v * LANES, stride, 2, out + v * LANES, out_row);
    }
    if (v < n_vectors) {
        NAME(tile)(depth, left, row, next, right + v * LANES, stride, 1, out + v * LANES, out_row);
    }
}

/* out[i][j] = Σ a[i][c] · b[c][j] for all j that i may look at, and for some that it may not. */
INLINE void NAME(dots)(const Shape *s, const float *a, const float *b, float *out)
{
    for (Py_ssize_t i = 0; i < s->rows; i += TILE) {
        Py_ssize_t n_vectors = NAME(reach)(i);
        n_vectors = n_vectors < s->columns / LANES ? n_vectors : s->columns / LANES;
        NAME(tiles)(s->head_width, a + i * s->room, s->room, 1, b, s->columns, n_vectors, out + i * s->columns, s->columns);
    }
}

/* out[i] = Σ over j <= i of weights[i][j] · x[j] */
INLINE void NAME(mix)(const Shape *s, const float *weights, const float *x, float *out)
{
    for (Py_ssize_t i = 0; i < s->rows; i += TILE) {
        Py_ssize_t end = i + TILE < s->time ? i + TILE : s->time;
        NAME(tiles)(end, weights + i * s->columns, s->columns, 1, x, s->room, s->room / LANES, out + i * s->room, s->room);
    }
}

/* out[j] = Σ over i >= j of weights[i][j] · x[i] */
INLINE void NAME(gather)(const Shape *s, const float *weights, const float *x, float *out)
{
    for (Py_ssize_t j = 0; j < s->rows; j += TILE) {
        NAME(tiles)(s->time > j ? s->time - j : 0, weights + j * s->columns + j, 1, s->columns, x + j * s->room, s->room,
                    s->room / LANES, out + j * s->room, s->room);
    }
}

/* Scores to weights, in place: softargmax over the positions up to each row's own; those behind it get 0. */
INLINE void NAME(softargmax)(const Shape *s, float *scores)
{
    const NAME(ivec) lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        float *row = scores + i * s->columns;
        Py_ssize_t n_seen = i < s->time ? i / LANES + 1 : 0; /* vectors */
        if (n_seen) {
            const NAME(ivec) is_ahead = lanes > (int32_t)(i - (n_seen - 1) * LANES);
            float *last = row + (n_seen - 1) * LANES;
            STORE(last, NAME(select)(is_ahead, NAME(splat)(-INFINITY), LOAD(last)));
            VEC most = LOAD(row);
            for (Py_ssize_t v = 1; v < n_seen; v++) {
                most = NAME(larger)(LOAD(row + v * LANES), most);
            }
            const float top = NAME(largest)(most);
            VEC total = {0};
            for (Py_ssize_t v = 0; v < n_seen; v++) {
                VEC risen = NAME(exp)(LOAD(row + v * LANES) - NAME(splat)(top));
                if (v == n_seen - 1) {
                    risen = NAME(select)(is_ahead, (VEC){0}, risen);
                }
                STORE(row + v * LANES, risen);
                total += risen;
            }
            const VEC part = NAME(splat)(1.0f / NAME(sum)(total));
            for (Py_ssize_t v = 0; v < n_seen; v++) {
                STORE(row + v * LANES, LOAD(row + v * LANES) * part);
            }
        }
        for (Py_ssize_t v = n_seen; v < s->columns / LANES; v++) {
            STORE(row + v * LANES, (VEC){0});
        }
    }
}

/* The slopes of scores from those of weights, in place: w · (g - Σ w g); 0 where the weight is. */
INLINE void NAME(softargmax_back)(const Shape *s, const float *weights, float *slopes)
{
    for (Py_ssize_t i = 0; i < s->rows; i++) {
        const float *w = weights + i * s->columns;
        float *g = slopes + i * s->columns;
        Py_ssize_t n_seen = i < s->time ? i / LANES + 1 : 0;
        VEC total = {0};
        for (Py_ssize_t v = 0; v < n_seen; v++) {
            total = FUSED(LOAD(w + v * LANES), LOAD(g + v * LANES), total);
        }
        const VEC sum = NAME(splat)(NAME(sum)(total));
        for (Py_ssize_t v = 0; v < n_seen; v++) {
            STORE(g + v * LANES, LOAD(w + v * LANES) * (LOAD(g + v * LANES) - sum));
        }
        for (Py_ssize_t v = n_seen; v < s->columns / LANES; v++) {
            STORE(g + v * LANES, (VEC){0});
        }
    }
}

/* One row and one head. parts: of the row's first token, its queries; keys and values stand a width and two behind them. */
static TARGET void NAME(forward)(const Shape *s, const float *parts, const float *turns, float *weights, float *mixed,
                                 float *room)
{
    const Py_ssize_t size = s->columns * s->room;
    float *q = room, *k = q + size, *turned_k = k + size, *v = turned_k + size, *out = v + size;
    NAME(take_head)(s, parts, turns, s->scale, q);
    NAME(take_head)(s, parts + s->width, turns, 1, k);
    NAME(take_head)(s, parts + 2 * s->width, NULL, 1, v);
    NAME(transpose)(s, k, turned_k);
    NAME(dots)(s, q, turned_k, weights);
    NAME(softargmax)(s, weights);
    NAME(mix)(s, weights, v, out);
    Shape narrow = *s; /* what goes on is of one width, not of three */
    narrow.stride = s->width;
    NAME(put_head)(&narrow, out, NULL, 1, mixed);
}

static TARGET void NAME(backward)(const Shape *s, const float *parts, const float *turns, const float *weights,
                                  const float *of_mixed, float *of_parts, float *room)
{
    const Py_ssize_t size = s->columns * s->room;
    float *q = room, *k = q + size, *v = k + size, *turned_v = v + size, *g = turned_v + size, *out = g + size;
    float *slopes = out + size;
    Shape narrow = *s;
    narrow.stride = s->width;
    NAME(take_head)(s, parts, turns, s->scale, q);
    NAME(take_head)(s, parts + s->width, turns, 1, k);
    NAME(take_head)(s, parts + 2 * s->width, NULL, 1, v);
    NAME(take_head)(&narrow, of_mixed, NULL, 1, g);
    NAME(transpose)(s, v, turned_v);
    NAME(gather)(s, weights, g, out);
    NAME(put_head)(s, out, NULL, 1, of_parts + 2 * s->width);
    NAME(dots)(s, g, turned_v, slopes);
    NAME(softargmax_back)(s, weights, slopes);
    NAME(mix)(s, slopes, k, out);
    NAME(put_head)(s, out, turns, s->scale, of_parts);
    NAME(gather)(s, slopes, q, out);
    NAME(put_head)(s, out, turns, 1, of_parts + s->width);
}

#undef VEC
#undef LOAD
#undef STORE
#undef INLINE
