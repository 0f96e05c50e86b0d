/* stacktest [--depth]: what the entry points leave on the stack below them. Each runs on a stack of its own that was all zeros; afterwards
 * that is searched for words of the key, the subkey, the one-time key, powers of r in every radix, and keystream. Exit status 0 where
 * there are none. --depth prints how deep each call went, instead of the search. Not for sanitizers or valgrind, whose own frames differ. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/native/aead.h"
#include "../../engine/native/bytes.h"
#include "../../engine/native/dispatch.h"

enum { STACK = 256 * 1024, MOST = 70000, SECRETS = 40000 };

static _Alignas(4096) uint8_t stack[STACK];
static uint8_t left[STACK], in[MOST], out[MOST], key[32], nonce[24], tag[16], subkey[32], exported[POLY1305_STATE];
static struct poly1305_stream stream;
static size_t left_size, size;
static const struct kernel *kernel;
static const struct aead_aad no_aad;

static void seal(void) { aead_seal(kernel, key, nonce, 12, &no_aad, in, size, out, tag); }
static void xseal(void) { aead_seal(kernel, key, nonce, 24, &no_aad, in, size, out, tag); }
static void open(void) { (void)aead_open(kernel, key, nonce, 24, &no_aad, out, size, tag, out); }
static void xor(void)
{
    uint32_t state[16];
    chacha20_state(state, key, 1, nonce);
    chacha20_xor(kernel, state, out, in, size);
    kernel->wipe_stack(1); /* these two are parts of others, and the binding's callers of them wipe */
    wipe(state, sizeof state);
}
static void derive(void)
{
    hchacha20(kernel, subkey, key, nonce);
    kernel->wipe_stack(0);
}
static void mac(void)
{
    poly1305_stream_init(&stream, kernel, key);
    for (size_t at = 0; at < size; at += 100)
        poly1305_stream_write(&stream, in + at, size - at < 100 ? size - at : 100);
    poly1305_stream_write(&stream, in, size);
    poly1305_stream_finish(&stream, tag);
}
static void mac_exported(void)
{
    poly1305_stream_init(&stream, kernel, key);
    poly1305_stream_write(&stream, in, size);
    poly1305_stream_export(&stream, exported);
    wipe(&stream, sizeof stream);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"seal", seal}, {"xseal", xseal}, {"open", open}, {"chacha20", xor}, {"hchacha20", derive}, {"mac", mac}, {"export", mac_exported}};

/* Copies what lies below its own frame without a call, which would write there. */
static void *run(void *call)
{
    (*(void (**)(void))call)();
    volatile uint8_t *bottom = stack;
    const uint8_t *top = __builtin_frame_address(0);
    left_size = 0;
    for (size_t i = 0; bottom + i < top; i++)
        left[left_size++] = bottom[i];
    return NULL;
}

static uint32_t secrets[SECRETS];
static size_t count;

static void remember(uint32_t word)
{
    if (word >> 16 && word >> 16 != 0xffff && count < SECRETS) /* small numbers are everywhere */
        secrets[count++] = word;
}

static void remember_bytes(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t word;
        memcpy(&word, p + i, 4);
        remember(word);
    }
}

static void remember_one_time_key(const uint8_t one_time[32])
{
    static struct poly1305 state;
    remember_bytes(one_time, 32);
    poly1305_init(&state, one_time);
    poly1305_powers(&state, POLY1305_POWERS_MAX);
    for (int power = 0; power < POLY1305_POWERS_MAX; power++) {
        const uint64_t *r = state.power[power], mask = (1 << 26) - 1;
        const uint64_t words[2] = {r[0] | (r[1] << 44), (r[1] >> 20) | (r[2] << 24)};
        const uint64_t limbs[5] = {r[0] & mask, (r[0] >> 26) + ((r[1] << 18) & mask), (r[1] >> 8) & mask, (r[1] >> 34) + ((r[2] << 10) & mask), r[2] >> 16};
        remember_bytes((const uint8_t *)words, 16);
        for (int i = 0; i < 3; i++) {
            remember((uint32_t)r[i]);
            remember((uint32_t)(20 * r[i]));
        }
        for (int i = 0; i < 5; i++) {
            remember((uint32_t)limbs[i]);
            remember((uint32_t)(5 * limbs[i]));
        }
    }
}

static void remember_keystream(const uint8_t from[32], const uint8_t nonce12[12])
{
    static uint8_t keystream[64 * 40];
    uint32_t state[16];
    chacha20_state(state, from, 0, nonce12);
    remember_bytes((const uint8_t *)(state + 4), 32);
    memset(keystream, 0, sizeof keystream);
    chacha20_xor(kernel_find("scalar"), state, keystream, keystream, sizeof keystream);
    remember_one_time_key(keystream);
    remember_bytes(keystream, sizeof keystream);
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void call_on_stack(void (*call)(void))
{
    pthread_t thread;
    pthread_attr_t attributes;
    memset(stack, 0, sizeof stack);
    if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, sizeof stack) ||
        pthread_create(&thread, &attributes, run, &call) || pthread_join(thread, NULL)) {
        fputs("no thread\n", stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    const int depth = argc == 2 && !strcmp(argv[1], "--depth");
    uint32_t x = 12345;
    int failures = 0;
    for (size_t i = 0; i < 32 + 24 + 3000; i++) {
        x = x * 1664525 + 1013904223;
        *(i < 32 ? key + i : i < 56 ? nonce + i - 32 : in + i - 56) = (uint8_t)(x >> 24);
    }
    uint8_t rest[12] = {0};
    memcpy(rest + 4, nonce + 16, 8);
    hchacha20(kernel_find("scalar"), subkey, key, nonce);
    remember_keystream(key, nonce);
    remember_keystream(subkey, rest);
    remember_one_time_key(key); /* of the MACs */
    qsort(secrets, count, sizeof *secrets, compare);
    static const size_t sizes[] = {0, 16, 64, 100, 200, 300, 500, 1000, 1350, 2048, 5000, 66000};
    for (const struct kernel *const *each = kernels_usable(); (kernel = *each); each++)
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                size_t found = 0, deepest = 0, shallowest = 0, untouched = 0;
                size = sizes[s];
                call_on_stack(calls[c].call);
                while (untouched < left_size && !left[untouched])
                    untouched++;
                for (size_t i = 0; i + 4 <= left_size; i += 4) {
                    uint32_t word;
                    memcpy(&word, left + i, 4);
                    if (bsearch(&word, secrets, count, sizeof word, compare)) {
                        deepest = found++ ? deepest : left_size - i;
                        shallowest = left_size - i;
                    }
                }
                if (depth)
                    printf("%-8s %-10s %6zu bytes: %zu deep\n", kernel->name, calls[c].name, size, left_size - untouched);
                else if (found)
                    printf("%-8s %-10s %6zu bytes: %zu words of secrets, %zu to %zu below\n", kernel->name, calls[c].name, size, found, shallowest, deepest);
                failures += found != 0;
            }
    return !depth && failures;
}
