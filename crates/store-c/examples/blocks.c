/* Adds up the bytes of a file in three ways, which must agree, and copies it. What it shows:
 *
 *   - rw_read_block moves the pointer: a block that is in the pool already is not read again;
 *   - rw_pread looks at the buffer's address: in the pool, past the page cache, else through it;
 *   - a file in the making is there under its name only when it is whole.
 *
 * cc blocks.c -o blocks -lreelway_store && ./blocks FILM COPY
 */
#include <reelway_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 64 * 1024 };

static void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, rw_error());
        exit(1);
    }
}

static uint64_t sum(const uint8_t *bytes, int64_t count) {
    uint64_t sum = 0;
    for (int64_t at = 0; at < count; at++)
        sum += bytes[at];
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    rw_store *store = rw_store_new(64 * BLOCK, BLOCK, "ons:threshold=5");
    check(store != NULL, "rw_store_new");
    rw_file *film = rw_open(store, argv[1]);
    check(film != NULL, argv[1]);

    /* By block, twice: the pointer moves from block to block. */
    uint64_t by_block[2] = {0, 0};
    rw_draft *copy = rw_create(store, argv[2], rw_size(film));
    check(copy != NULL, argv[2]);
    for (int round = 0; round < 2; round++) {
        const uint8_t *block = NULL;
        int64_t bytes;
        for (uint64_t number = 0; (bytes = rw_read_block(film, number, &block)) > 0; number++) {
            by_block[round] += sum(block, bytes);
            if (round == 0)
                check(rw_write(copy, block, (size_t)bytes) == 0, "rw_write");
        }
        check(bytes == 0, "rw_read_block");
        check(block == NULL, "the end");
    }
    check(rw_publish(copy, 0) == 0, "rw_publish");

    /* Into a block of the pool, and into memory of our own. */
    uint64_t direct = 0, buffered = 0;
    uint8_t *pooled = rw_alloc(store, 1000);
    check(pooled != NULL, "rw_alloc");
    uint8_t *own = malloc(BLOCK);
    for (uint64_t at = 0; at < rw_size(film); at += BLOCK) {
        int64_t bytes = rw_pread(film, pooled, BLOCK, at);
        check(bytes > 0, "rw_pread into the pool");
        direct += sum(pooled, bytes);
        bytes = rw_pread(film, own, BLOCK, at);
        check(bytes > 0, "rw_pread");
        buffered += sum(own, bytes);
    }
    free(own);
    check(rw_release(store, pooled) == 0, "rw_release");
    check(rw_release(store, pooled) == -1, "a block is let go once");

    rw_stats stats;
    check(rw_store_stats(store, &stats) == 0, "rw_store_stats");
    printf("sums %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", by_block[0], by_block[1], direct, buffered);
    printf("hits %" PRIu64 " misses %" PRIu64 " in use %" PRIu64 "\n", stats.hits, stats.misses, stats.in_use);

    /* No more than the pool has. */
    int count = 0;
    uint8_t *all[100];
    while (count < 100 && (all[count] = rw_alloc(store, 10)) != NULL)
        count++;
    printf("blocks %d: %s\n", count, rw_error());
    while (count > 0)
        rw_release(store, all[--count]);

    check(rw_open(store, "/nothing/there") == NULL, "a file that is not there");
    printf("%s\n", rw_error());
    rw_close(film);
    rw_store_free(store);
    return 0;
}
