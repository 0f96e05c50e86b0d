#include "poly1305.h"

#include "bytes.h"

typedef unsigned __int128 uint128;

#define MASK44 ((UINT64_C(1) << 44) - 1)
#define MASK42 ((UINT64_C(1) << 42) - 1)

const uint64_t poly1305_masks44[3] = {MASK44, MASK44, MASK42};

/* 2^132 is 20 modulo 2^130 - 5, so what passes limb 2 comes back times 20. */
void poly1305_multiply(uint64_t out[3], const uint64_t a[3], const uint64_t b[3])
{
    const uint64_t s1 = b[1] * 20, s2 = b[2] * 20;
    /* Limb by limb, so that few sums are alive at once. */
    uint128 d = (uint128)a[0] * b[0] + (uint128)a[1] * s2 + (uint128)a[2] * s1;
    const uint64_t h0 = (uint64_t)d & MASK44;
    uint64_t carry = (uint64_t)(d >> 44);
    d = (uint128)a[0] * b[1] + (uint128)a[1] * b[0] + (uint128)a[2] * s2 + carry;
    const uint64_t h1 = (uint64_t)d & MASK44;
    carry = (uint64_t)(d >> 44);
    d = (uint128)a[0] * b[2] + (uint128)a[1] * b[1] + (uint128)a[2] * b[0] + carry;
    const uint64_t wrapped = h0 + (uint64_t)(d >> 42) * 5;
    out[0] = wrapped & MASK44;
    out[1] = h1 + (wrapped >> 44);
    out[2] = (uint64_t)d & MASK42;
}

/* h += c, over words. */
ALWAYS_INLINE void add(uint64_t h[3], uint64_t c)
{
    uint128 sum = (uint128)h[0] + c;
    h[0] = (uint64_t)sum;
    sum = (uint128)h[1] + (uint64_t)(sum >> 64);
    h[1] = (uint64_t)sum;
    h[2] += (uint64_t)(sum >> 64);
}

/* What stands above bit 130 comes back times 5: h[2] is then at most 4. */
ALWAYS_INLINE void wrap(uint64_t h[3])
{
    const uint64_t c = (h[2] >> 2) + (h[2] & ~UINT64_C(3));
    h[2] &= 3;
    add(h, c);
}

/* Block by block, in radix 2^64: clamping leaves r's words room, and r1 a multiple of 4, so that 2^128 * r1 wraps to r1 * 5 / 4. */
static void scalar_blocks(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t blocks, uint64_t high)
{
    if (state->spread)
        kernel->poly1305_fold(state);
    const uint64_t *r = state->power[0];
    const uint64_t r0 = r[0] | (r[1] << 44), r1 = (r[1] >> 20) | (r[2] << 24), s1 = r1 + (r1 >> 2);
    uint64_t h[3] = {state->h[0], state->h[1], state->h[2]};
    wrap(h);
    for (; blocks; blocks--, in += POLY1305_BLOCK) {
        uint128 d0 = (uint128)h[0] + load64_le(in);
        uint128 d1 = (uint128)h[1] + load64_le(in + 8) + (uint64_t)(d0 >> 64);
        const uint64_t h0 = (uint64_t)d0, h1 = (uint64_t)d1, h2 = h[2] + (uint64_t)(d1 >> 64) + high; /* at most 6 */
        d0 = (uint128)h0 * r0 + (uint128)h1 * s1;
        d1 = (uint128)h0 * r1 + (uint128)h1 * r0 + h2 * s1 + (uint64_t)(d0 >> 64);
        h[0] = (uint64_t)d0;
        h[1] = (uint64_t)d1;
        h[2] = h2 * r0 + (uint64_t)(d1 >> 64);
        wrap(h);
    }
    memcpy(state->h, h, sizeof h);
}

enum { WHOLE = 1 }; /* the bit that ends a whole block, 2^128 */

void poly1305_init(struct poly1305 *state, const uint8_t key[POLY1305_KEY])
{
    const uint64_t low = load64_le(key) & UINT64_C(0x0ffffffc0fffffff), top = load64_le(key + 8) & UINT64_C(0x0ffffffc0ffffffc);
    memset(state->h, 0, sizeof state->h);
    state->power[0][0] = low & MASK44;
    state->power[0][1] = ((low >> 44) | (top << 20)) & MASK44;
    state->power[0][2] = top >> 24;
    memcpy(state->pad, key + 16, sizeof state->pad);
    state->spread = 0;
    state->turn = 0;
    state->powers = 1;
}

void poly1305_powers(struct poly1305 *state, uint32_t count)
{
    /* r^k from its halves: a short chain, and neighbours do not wait for each other. */
    for (uint32_t k = state->powers + 1; k <= count; k++) {
        poly1305_multiply(state->power[k - 1], state->power[k / 2 - 1], state->power[(k + 1) / 2 - 1]);
    }
    if (count > state->powers)
        state->powers = count;
}

void poly1305_blocks(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size)
{
    const size_t vector = kernel->poly1305_bytes;
    if (vector && size >= (state->turn ? vector : kernel->poly1305_worth)) {
        const size_t vectors = size / vector;
        kernel->poly1305_vectors(state, in, vectors);
        in += vectors * vector;
        size -= vectors * vector;
    }
    if (size)
        scalar_blocks(kernel, state, in, size / POLY1305_BLOCK, WHOLE);
}

void poly1305_padded(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size)
{
    const size_t rest = size % POLY1305_BLOCK, whole = size - rest;
    if (whole)
        poly1305_blocks(kernel, state, in, whole);
    if (rest) {
        uint8_t block[POLY1305_BLOCK] = {0};
        memcpy(block, in + whole, rest);
        scalar_blocks(kernel, state, block, 1, WHOLE);
        wipe(block, sizeof block);
    }
}

/* The accumulator as a number below p. */
static void reduce(uint64_t h[3])
{
    wrap(h);
    wrap(h);
    /* h + 5 reaches 2^130 exactly where h is at least p. */
    uint64_t g[3] = {h[0], h[1], h[2]};
    add(g, 5);
    const uint64_t take = 0 - (g[2] >> 2);
    g[2] &= 3;
    for (int i = 0; i < 3; i++)
        h[i] = (h[i] & ~take) | (g[i] & take);
}

void poly1305_finish(const struct kernel *kernel, struct poly1305 *state, const uint8_t *rest, size_t size, uint8_t tag[POLY1305_TAG])
{
    if (size) {
        uint8_t block[POLY1305_BLOCK] = {0};
        memcpy(block, rest, size);
        block[size] = 1;
        scalar_blocks(kernel, state, block, 1, 0);
        wipe(block, sizeof block);
    } else if (state->spread) {
        kernel->poly1305_fold(state);
    }
    reduce(state->h);
    add(state->h, load64_le(state->pad));
    store64_le(tag, state->h[0]);
    store64_le(tag + 8, state->h[1] + load64_le(state->pad + 8));
}

void poly1305_wipe(struct poly1305 *state)
{
    wipe(state, state->turn ? sizeof *state : offsetof(struct poly1305, power) + sizeof state->power[0] * state->powers);
}

void poly1305_stream_init(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t key[POLY1305_KEY])
{
    stream->kernel = kernel;
    stream->used = 0;
    stream->emptied = 0;
    memcpy(stream->key, key, POLY1305_KEY);
    poly1305_init(&stream->state, key);
}

void poly1305_stream_write_large(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    const struct kernel *kernel = stream->kernel;
    const size_t vector = kernel->poly1305_bytes ? kernel->poly1305_bytes : POLY1305_BLOCK;
    stream->emptied = 1;
    if (stream->used) {
        /* As much as makes whole vectors, or all of the buffer where the write would not fit it. */
        const size_t odd = stream->used % vector;
        const size_t room = size >= POLY1305_DIRECT ? (odd ? vector - odd : 0) : POLY1305_BUFFER - stream->used;
        const size_t take = size < room ? size : room;
        memcpy(stream->buffer + stream->used, in, take);
        poly1305_blocks(kernel, &stream->state, stream->buffer, stream->used + take);
        in += take;
        size -= take;
    }
    const size_t rest = size % vector;
    if (size >= POLY1305_DIRECT) {
        poly1305_blocks(kernel, &stream->state, in, size - rest);
        in += size - rest;
        size = rest;
    }
    memcpy(stream->buffer, in, size);
    stream->used = size;
}

/* Absorbs the whole blocks that wait; returns what is left over, below 16 bytes. */
static size_t settle(struct poly1305_stream *stream)
{
    const size_t rest = stream->used % POLY1305_BLOCK, whole = stream->used - rest;
    if (whole) {
        poly1305_blocks(stream->kernel, &stream->state, stream->buffer, whole);
        memmove(stream->buffer, stream->buffer + whole, rest);
        stream->used = rest;
        stream->emptied = 1;
    }
    return rest;
}

/* Apart, as export_settled is, so that the stack is wiped from the height at which writes used it. */
static __attribute__((noinline)) void finish_settled(struct poly1305_stream *stream, uint8_t tag[POLY1305_TAG])
{
    const size_t rest = settle(stream);
    poly1305_finish(stream->kernel, &stream->state, stream->buffer, rest, tag);
    poly1305_stream_wipe(stream);
}

void poly1305_stream_finish(struct poly1305_stream *stream, uint8_t tag[POLY1305_TAG])
{
    const struct kernel *kernel = stream->kernel;
    const int most = stream->state.turn || (kernel->poly1305_bytes && stream->used >= kernel->poly1305_worth);
    finish_settled(stream, tag);
    kernel->wipe_stack(most);
}

void poly1305_stream_wipe(struct poly1305_stream *stream)
{
    wipe(stream->buffer, stream->emptied ? sizeof stream->buffer : stream->used);
    wipe(stream->key, sizeof stream->key);
    poly1305_wipe(&stream->state);
    stream->used = 0;
    stream->emptied = 0;
}

static __attribute__((noinline)) void export_settled(struct poly1305_stream *stream, uint8_t out[POLY1305_STATE])
{
    const size_t rest = settle(stream);
    uint64_t *h = stream->state.h;
    if (stream->state.spread)
        stream->kernel->poly1305_fold(&stream->state);
    reduce(h);
    memset(out, 0, POLY1305_STATE);
    out[0] = 1;
    memcpy(out + 1, stream->key, POLY1305_KEY);
    store64_le(out + 33, h[0]);
    store64_le(out + 41, h[1]);
    out[49] = (uint8_t)h[2];
    out[50] = (uint8_t)rest;
    memcpy(out + 51, stream->buffer, rest);
}

void poly1305_stream_export(struct poly1305_stream *stream, uint8_t out[POLY1305_STATE])
{
    export_settled(stream, out);
    stream->kernel->wipe_stack(stream->state.turn != 0);
}

int poly1305_stream_import(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t in[POLY1305_STATE])
{
    const uint64_t low = load64_le(in + 33), middle = load64_le(in + 41), top = in[49];
    const size_t rest = in[50];
    /* Without a branch on the accumulator: 5 more stays below 2^130 exactly where it is below p. */
    uint64_t h[3] = {low, middle, top};
    add(h, 5);
    int reduced = h[2] < 4;
    PUBLIC(reduced);
    if (in[0] != 1 || rest >= POLY1305_BLOCK || !reduced)
        return -1;
    for (size_t i = rest; i < POLY1305_BLOCK - 1; i++)
        if (in[51 + i])
            return -1;
    poly1305_stream_init(stream, kernel, in + 1);
    stream->state.h[0] = low;
    stream->state.h[1] = middle;
    stream->state.h[2] = top;
    memcpy(stream->buffer, in + 51, rest);
    stream->used = rest;
    return 0;
}
