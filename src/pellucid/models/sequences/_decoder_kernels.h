/* What a decoder computes, for one type of number and one kind of processor: _decoder.c includes this once for each.

   It wants REAL and INTEGER of equal size, LANES of them in a vector, FUSED(a, b, c) for a·b + c, NAME(x) for the names of
   this copy, TARGET for the processor, and the constants of exp. Every sum is taken in an order that depends on nothing
   but the row itself, so that a row has the same bits alone and among others, read at once and token by token. */

typedef REAL NAME(vec) __attribute__((vector_size(sizeof(REAL) * LANES)));
typedef INTEGER NAME(ivec) __attribute__((vector_size(sizeof(REAL) * LANES)));
typedef REAL NAME(loose) __attribute__((vector_size(sizeof(REAL) * LANES), aligned(sizeof(REAL)), may_alias));

#define VEC NAME(vec)
#define LOAD(from) ((VEC) * (const NAME(loose) *)(from))
#define STORE(to, value) (*(NAME(loose) *)(to) = (NAME(loose))(value))
#define SPLAT(value) NAME(splat)(value)
#define PANEL (2 * LANES)
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Written out, so that it is one instruction; 0 + value is two. */
INLINE VEC NAME(splat)(REAL v)
{
#if LANES == 8
    return (VEC){v, v, v, v, v, v, v, v};
#else
    return (VEC){v, v, v, v};
#endif
}

/* a where the mask is set, and b elsewhere */
INLINE VEC NAME(select)(NAME(ivec) mask, VEC a, VEC b)
{
    return (VEC)((mask & (NAME(ivec))a) | (~mask & (NAME(ivec))b));
}

/* Lanes are taken together in pairs: one after another each would wait for the one before. */
INLINE REAL NAME(sum)(VEC v)
{
#if LANES == 8
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

#define LARGER(a, b) ((a) > (b) ? (a) : (b))

INLINE REAL NAME(largest)(VEC v)
{
    REAL first = LARGER(v[0], v[2]), second = LARGER(v[1], v[3]);
#if LANES == 8
    REAL third = LARGER(v[4], v[6]), fourth = LARGER(v[5], v[7]);
    first = LARGER(first, third);
    second = LARGER(second, fourth);
#endif
    return LARGER(first, second);
}

/* exp of numbers that are not above 0. 2^n · exp(r) with |r| <= ln 2 / 2, and exp(r) by as many terms of its series as the
   type can hold. */
INLINE VEC NAME(exp)(VEC x)
{
    x = NAME(select)(x < SPLAT(LEAST_EXPONENT), SPLAT(LEAST_EXPONENT), x);
    VEC shifted = FUSED(x, SPLAT((REAL)1.4426950408889634), SPLAT(ROUNDER)); /* n stands in the last bits */
    VEC n = shifted - SPLAT(ROUNDER);
    VEC r = FUSED(n, SPLAT(-LN2_HIGH), x);
    r = FUSED(n, SPLAT(-LN2_LOW), r);
    VEC series = SPLAT((REAL)1 / (REAL)N_TERMS) * r + (REAL)1; /* Horner, as 1 + r/1 · (1 + r/2 · (1 + …)) */
#pragma GCC unroll 16
    for (int term = N_TERMS - 1; term >= 1; term--) {
        series = FUSED(series, r * SPLAT((REAL)1 / (REAL)term), SPLAT((REAL)1));
    }
    NAME(ivec) power = ((NAME(ivec))shifted << MANTISSA) + ((INTEGER)EXPONENT_BIAS << MANTISSA);
    return series * (VEC)power;
}

enum { NAME(STORE_IT), NAME(ADD_IT), NAME(SQUARE_IT) };

/* What a panel is read in: WIDE is how many vectors of a panel's numbers one register holds, 1 or 2. Either way all sums
   run over k in order, so that both have the same bits. A processor with wider registers has more of them too. */
typedef REAL NAME(part) __attribute__((vector_size(sizeof(REAL) * LANES * WIDE)));
typedef INTEGER NAME(ipart) __attribute__((vector_size(sizeof(REAL) * LANES * WIDE)));
typedef REAL NAME(loose_part) __attribute__((vector_size(sizeof(REAL) * LANES * WIDE), aligned(sizeof(REAL)), may_alias));
#define MOST_ROWS (6 * WIDE)
#define PARTS (2 / WIDE) /* of a panel */
#define PART_LANES (WIDE * LANES)

/* out[r][column] for some rows and some panels of columns: what all products are made of. All sums run over k in order. */
INLINE void NAME(tile)(const int rows, const int panels, const REAL *a, Py_ssize_t a_stride, const REAL *b, Py_ssize_t n_in,
                       REAL *out, Py_ssize_t out_stride, const int how)
{
    NAME(part) sums[MOST_ROWS][8];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int v = 0; v < PARTS * panels; v++) {
            sums[r][v] = (NAME(part)){0};
        }
    }
    for (Py_ssize_t k = 0; k < n_in; k++) {
        NAME(part) weights[8];
#pragma GCC unroll 8
        for (int v = 0; v < PARTS * panels; v++) {
            weights[v] = *(const NAME(loose_part) *)(b + (v / PARTS * n_in + k) * PANEL + v % PARTS * PART_LANES);
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            NAME(part) value = SPLAT_PART(a[r * a_stride + k]);
#pragma GCC unroll 8
            for (int v = 0; v < PARTS * panels; v++) {
                sums[r][v] = FUSED_PART(value, weights[v], sums[r][v]);
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int v = 0; v < PARTS * panels; v++) {
            NAME(loose_part) *place = (NAME(loose_part) *)(out + r * out_stride + v * PART_LANES);
            NAME(part) value = sums[r][v];
            if (how == NAME(ADD_IT)) {
                value = (NAME(part)) * place + value;
            }
            else if (how == NAME(SQUARE_IT)) {
                value = (NAME(part))(~(value < (NAME(part)){0}) & (NAME(ipart))value);
                value = value * value;
            }
            *place = (NAME(loose_part))value;
        }
    }
}

/* Some rows by some panels: tiles of as many rows as registers hold, and then of fewer. */
INLINE void NAME(columns)(const int panels, const REAL *a, Py_ssize_t a_stride, Py_ssize_t rows, const REAL *b, Py_ssize_t n_in,
                          REAL *out, Py_ssize_t out_stride, const int how)
{
    Py_ssize_t row = 0;
#define TILES_OF(n)                                                                                                              \
    for (; row + (n) <= rows; row += (n)) {                                                                                      \
        NAME(tile)((n), panels, a + row * a_stride, a_stride, b, n_in, out + row * out_stride, out_stride, how);                 \
    }
#if MOST_ROWS > 6
    TILES_OF(MOST_ROWS)
#endif
    TILES_OF(6)
    TILES_OF(4)
    TILES_OF(2)
    TILES_OF(1)
#undef TILES_OF
}

/* (rows, n_in) by a packed matrix -> (rows, n_panels · PANEL). A panel is read from memory once for all rows. */
INLINE void NAME(product_as)(const REAL *a, Py_ssize_t a_stride, Py_ssize_t rows, const REAL *packed, Py_ssize_t n_in,
                             Py_ssize_t n_panels, REAL *out, Py_ssize_t out_stride, const int how)
{
    Py_ssize_t panel = 0;
    if (rows == 1) { /* one row has too few sums to keep the processor busy, so it takes more columns at once */
        for (; panel + 4 * WIDE <= n_panels; panel += 4 * WIDE) {
            NAME(tile)(1, 4 * WIDE, a, a_stride, packed + panel * n_in * PANEL, n_in, out + panel * PANEL, out_stride, how);
        }
    }
#if WIDE == 2
    for (; panel + 2 <= n_panels; panel += 2) {
        NAME(columns)(2, a, a_stride, rows, packed + panel * n_in * PANEL, n_in, out + panel * PANEL, out_stride, how);
    }
#endif
    for (; panel < n_panels; panel++) {
        NAME(columns)(1, a, a_stride, rows, packed + panel * n_in * PANEL, n_in, out + panel * PANEL, out_stride, how);
    }
}

static TARGET __attribute__((noinline)) void NAME(product)(const REAL *a, Py_ssize_t a_stride, Py_ssize_t rows,
                                                           const Packed *matrix, REAL *out, Py_ssize_t out_stride, int how)
{
    const REAL *packed = matrix->numbers;
    if (how == NAME(ADD_IT)) {
        NAME(product_as)(a, a_stride, rows, packed, matrix->n_in, matrix->n_panels, out, out_stride, NAME(ADD_IT));
    }
    else if (how == NAME(SQUARE_IT)) {
        NAME(product_as)(a, a_stride, rows, packed, matrix->n_in, matrix->n_panels, out, out_stride, NAME(SQUARE_IT));
    }
    else {
        NAME(product_as)(a, a_stride, rows, packed, matrix->n_in, matrix->n_panels, out, out_stride, NAME(STORE_IT));
    }
}

/* Mean 0 and variance 1, without weights, as torch's layer norm with its usual epsilon. */
static TARGET void NAME(normalise)(const REAL *x, REAL *out, Py_ssize_t width)
{
    Py_ssize_t whole = width - width % LANES, i;
    VEC sums = {0};
    for (i = 0; i < whole; i += LANES) {
        sums += LOAD(x + i);
    }
    REAL mean = NAME(sum)(sums);
    for (i = whole; i < width; i++) {
        mean += x[i];
    }
    mean /= (REAL)width;
    sums = (VEC){0};
    for (i = 0; i < whole; i += LANES) {
        VEC off = LOAD(x + i) - mean;
        sums = FUSED(off, off, sums);
    }
    REAL variance = NAME(sum)(sums);
    for (i = whole; i < width; i++) {
        variance += (x[i] - mean) * (x[i] - mean);
    }
    variance /= (REAL)width;
    REAL scale = (REAL)(1 / sqrt((double)variance + 1e-5));
    for (i = 0; i < whole; i += LANES) {
        STORE(out + i, (LOAD(x + i) - mean) * scale);
    }
    for (i = whole; i < width; i++) {
        out[i] = (x[i] - mean) * scale;
    }
}

/* The values of n positions by their weights: `vectors` vectors of a head at once. */
INLINE void NAME(mix)(const int vectors, const REAL *weights, const REAL *values, Py_ssize_t stride, Py_ssize_t n, REAL scale,
                      REAL *out)
{
    VEC even[4], odd[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        even[v] = (VEC){0};
        odd[v] = (VEC){0};
    }
    Py_ssize_t t = 0;
    for (; t + 2 <= n; t += 2) {
        VEC first = SPLAT(weights[t]), second = SPLAT(weights[t + 1]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            even[v] = FUSED(first, LOAD(values + t * stride + v * LANES), even[v]);
            odd[v] = FUSED(second, LOAD(values + (t + 1) * stride + v * LANES), odd[v]);
        }
    }
    if (t < n) {
        VEC first = SPLAT(weights[t]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            even[v] = FUSED(first, LOAD(values + t * stride + v * LANES), even[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        STORE(out + v * LANES, (even[v] + odd[v]) * scale);
    }
}

/* Ask for numbers that are wanted soon, but not for more than processors would find out themselves. */
INLINE void NAME(fetch)(const REAL *numbers, Py_ssize_t n)
{
    const Py_ssize_t line = ALIGNED / (Py_ssize_t)sizeof(REAL), most = 16 * line;
    for (Py_ssize_t i = 0; i < (n < most ? n : most); i += line) {
        __builtin_prefetch(numbers + i);
    }
}

/* Products of a query with the keys of `groups` times LANES positions. */
INLINE void NAME(ask)(const int groups, const REAL *query, const REAL *keys, Py_ssize_t head_width, REAL scale, REAL *scores)
{
    VEC sums[4];
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        sums[g] = (VEC){0};
    }
    for (Py_ssize_t d = 0; d < head_width; d++) {
        VEC value = SPLAT(query[d]);
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            sums[g] = FUSED(value, LOAD(keys + (g * head_width + d) * LANES), sums[g]);
        }
    }
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        STORE(scores + g * LANES, sums[g] * scale);
    }
}

/* One query over the keys and values of the first n positions of a head; scores is room for n and some more.

   bias: of these positions, to be added to the scores, or NULL. What lies behind the n-th key was never written: whatever it
   is, its score is not looked at. */
INLINE void NAME(attend)(const Decoder *net, const REAL *query, const REAL *keys, const REAL *values, const REAL *bias,
                         Py_ssize_t n, REAL *scores, REAL *mixed)
{
    Py_ssize_t head_width = net->head_width, padded = net->head_padded, n_groups = (n + LANES - 1) / LANES, g = 0;
    REAL scale = (REAL)net->scale;
    for (; g + 4 <= n_groups; g += 4) {
        NAME(ask)(4, query, keys + g * head_width * LANES, head_width, scale, scores + g * LANES);
    }
    for (; g + 2 <= n_groups; g += 2) {
        NAME(ask)(2, query, keys + g * head_width * LANES, head_width, scale, scores + g * LANES);
    }
    for (; g < n_groups; g++) {
        NAME(ask)(1, query, keys + g * head_width * LANES, head_width, scale, scores + g * LANES);
    }
    if (bias != NULL) {
        for (Py_ssize_t t = 0; t < n; t++) {
            scores[t] += bias[t];
        }
    }
    for (Py_ssize_t t = n; t < n_groups * LANES; t++) {
        scores[t] = -(REAL)INFINITY;
    }
    VEC highest = LOAD(scores);
    for (g = 1; g < n_groups; g++) {
        VEC some = LOAD(scores + g * LANES);
        highest = NAME(select)(some > highest, some, highest);
    }
    REAL most = NAME(largest)(highest);
    VEC sums = {0};
    for (g = 0; g < n_groups; g++) {
        VEC some = LOAD(scores + g * LANES);
        /* exp of the least number is not quite 0, and what is not there has no weight at all */
        VEC weights = NAME(select)(some > SPLAT(-(REAL)INFINITY), NAME(exp)(some - most), (VEC){0});
        STORE(scores + g * LANES, weights);
        sums += weights;
    }
    REAL share = (REAL)1 / NAME(sum)(sums);
    Py_ssize_t at = 0;
    for (; at + 4 * LANES <= padded; at += 4 * LANES) {
        NAME(mix)(4, scores, values + at, padded, n, share, mixed + at);
    }
    for (; at + 2 * LANES <= padded; at += 2 * LANES) {
        NAME(mix)(2, scores, values + at, padded, n, share, mixed + at);
    }
    for (; at < padded; at += LANES) {
        NAME(mix)(1, scores, values + at, padded, n, share, mixed + at);
    }
}

/* The pairs of a head, of which the first numbers stand before all second ones, turned by their angles. */
INLINE void NAME(turn)(REAL *head, const REAL *angles, Py_ssize_t half)
{
    const REAL *cosines = angles, *sines = angles + half;
    Py_ssize_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        VEC first = LOAD(head + i), second = LOAD(head + half + i), c = LOAD(cosines + i), s = LOAD(sines + i);
        STORE(head + i, first * c - second * s);
        STORE(head + half + i, first * s + second * c);
    }
    for (; i < half; i++) {
        REAL first = head[i], second = head[half + i];
        head[i] = first * cosines[i] - second * sines[i];
        head[half + i] = first * sines[i] + second * cosines[i];
    }
}

/* Queries, keys and values of some rows, (rows, 3 · width), through attention of one block -> mixed, (rows, width). */
static TARGET __attribute__((noinline)) void NAME(attend_all)(const Decoder *net, char *const *slots, Py_ssize_t block,
                                                              Py_ssize_t rows, const int64_t *slot, const int64_t *position,
                                                              REAL *parts, Py_ssize_t parts_stride, REAL *scores, REAL *mixed,
                                                              Py_ssize_t mixed_stride)
{
    Py_ssize_t width = net->width, head_width = net->head_width, padded = net->head_padded;
    /* All keys and values first: rows may be tokens of one sequence, which look at each other. */
    for (Py_ssize_t row = 0; row < rows; row++) {
        REAL *own = parts + row * parts_stride, *past = (REAL *)slots[slot[row]] + block * net->block_room;
        Py_ssize_t p = position[row], next = row + 1 < rows ? row + 1 : row;
        const REAL *ahead = (const REAL *)slots[slot[next]] + block * net->block_room;
        for (Py_ssize_t head = 0; head < net->n_heads; head++, past += net->head_room, ahead += net->head_room) {
            NAME(fetch)(ahead + position[next] / LANES * LANES * head_width, head_width * LANES);
            NAME(fetch)(ahead + net->keys_room + position[next] * padded, padded);
            REAL *query = own + head * head_width, *key = query + width, *value = key + width;
            if (net->angles != NULL) {
                const REAL *angles = (const REAL *)net->angles + p * head_width;
                NAME(turn)(query, angles, head_width / 2);
                NAME(turn)(key, angles, head_width / 2);
            }
            REAL *keys = past + p / LANES * LANES * head_width + p % LANES;
            for (Py_ssize_t d = 0; d < head_width; d++) {
                keys[d * LANES] = key[d];
            }
            REAL *values = past + net->keys_room + p * padded;
            memcpy(values, value, (size_t)head_width * sizeof(REAL));
            for (Py_ssize_t d = head_width; d < padded; d++) {
                values[d] = 0;
            }
        }
    }
    REAL *one = scores + net->scores_room;
    for (Py_ssize_t row = 0; row < rows; row++) {
        const REAL *own = parts + row * parts_stride, *past = (const REAL *)slots[slot[row]] + block * net->block_room;
        Py_ssize_t n = position[row] + 1, next = row + 1 < rows ? row + 1 : row, n_next = position[next] + 1;
        const REAL *ahead = (const REAL *)slots[slot[next]] + block * net->block_room;
        for (Py_ssize_t head = 0; head < net->n_heads; head++, past += net->head_room, ahead += net->head_room) {
            NAME(fetch)(ahead, n_next * head_width);
            NAME(fetch)(ahead + net->keys_room, n_next * padded);
            const REAL *bias = NULL;
            if (net->bias != NULL) {
                bias = (const REAL *)net->bias + (head + 1) * net->context - n;
            }
            NAME(attend)(net, own + head * head_width, past, past + net->keys_room, bias, n, scores, one);
            memcpy(mixed + row * mixed_stride + head * head_width, one, (size_t)head_width * sizeof(REAL));
        }
    }
}

/* Some tokens through the whole network. Logits, (rows - first, vocab), of those from `first` on. */
static TARGET void NAME(pass)(const Decoder *net, char *const *slots, Py_ssize_t rows, const int64_t *token,
                              const int64_t *slot, const int64_t *position, Py_ssize_t first, void *out, void *room)
{
    Py_ssize_t width = net->width;
    REAL *x = room, *normed = x + AT_ONCE * net->width_padded, *parts = normed + AT_ONCE * net->width_padded;
    REAL *wide = parts + AT_ONCE * net->parts_padded, *scores = wide + AT_ONCE * net->wide_padded;
    for (Py_ssize_t row = 0; row < rows; row++) {
        REAL *own = x + row * net->width_padded;
        memcpy(own, (const REAL *)net->embedding + token[row] * width, (size_t)width * sizeof(REAL));
        if (net->places != NULL) {
            const REAL *place = (const REAL *)net->places + position[row] * width;
            for (Py_ssize_t i = 0; i < width; i++) {
                own[i] += place[i];
            }
        }
    }
    for (Py_ssize_t block = 0; block < net->depth; block++) {
        const Packed *matrices = net->blocks + 4 * block;
        for (Py_ssize_t row = 0; row < rows; row++) {
            NAME(normalise)(x + row * net->width_padded, normed + row * net->width_padded, width);
        }
        NAME(product)(normed, net->width_padded, rows, matrices, parts, net->parts_padded, NAME(STORE_IT));
        NAME(attend_all)(net, slots, block, rows, slot, position, parts, net->parts_padded, scores, normed,
                         net->width_padded);
        NAME(product)(normed, net->width_padded, rows, matrices + 1, x, net->width_padded, NAME(ADD_IT));
        for (Py_ssize_t row = 0; row < rows; row++) {
            NAME(normalise)(x + row * net->width_padded, normed + row * net->width_padded, width);
        }
        NAME(product)(normed, net->width_padded, rows, matrices + 2, wide, net->wide_padded, NAME(SQUARE_IT));
        NAME(product)(wide, net->wide_padded, rows, matrices + 3, x, net->width_padded, NAME(ADD_IT));
    }
    if (first >= rows) {
        return;
    }
    for (Py_ssize_t row = first; row < rows; row++) {
        NAME(normalise)(x + row * net->width_padded, normed + row * net->width_padded, width);
    }
    NAME(product)(normed + first * net->width_padded, net->width_padded, rows - first, &net->head, wide, net->wide_padded,
                  NAME(STORE_IT));
    REAL *logits = out;
    for (Py_ssize_t row = first; row < rows; row++, logits += net->vocab_size) {
        memcpy(logits, wide + (row - first) * net->wide_padded, (size_t)net->vocab_size * sizeof(REAL));
    }
}

#undef NAME
#undef TARGET
#undef FUSED
#undef WIDE
#undef SPLAT_PART
#undef FUSED_PART
#undef VEC
#undef LOAD
#undef STORE
#undef SPLAT
#undef PANEL
#undef INLINE
#undef LARGER
#undef MOST_ROWS
#undef PARTS
#undef PART_LANES
