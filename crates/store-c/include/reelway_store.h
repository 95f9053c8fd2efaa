/* libreelway_store: blocks of files in one pool of memory (reelway_store(3)).
 *
 * Made by cbindgen from crates/store-c/src/lib.rs; a test holds it equal. */

#ifndef REELWAY_STORE_H
#define REELWAY_STORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 A file in the making. Made by rw_create, ended by rw_publish or rw_discard. One thread at a time.
 */
typedef struct rw_draft rw_draft;

/*
 A file whose blocks are read. Made by rw_open, freed by rw_close. May be used by several threads at
 once.
 */
typedef struct rw_file rw_file;

/*
 A pool of blocks, and what reads into it. Made by rw_store_new, freed by rw_store_free. May be used by
 several threads at once.
 */
typedef struct rw_store rw_store;

/*
 What a store holds and has done.
 */
typedef struct {
  /*
   Blocks in all.
   */
  uint64_t blocks;
  /*
   Bytes of a block.
   */
  uint64_t block_bytes;
  /*
   Blocks that are in use or being read.
   */
  uint64_t in_use;
  /*
   Blocks that hold bytes of files.
   */
  uint64_t cached;
  /*
   Blocks that were asked for and there.
   */
  uint64_t hits;
  /*
   Blocks that had to be read.
   */
  uint64_t misses;
  /*
   Bytes read from disks into the pool by rw_read_block.
   */
  uint64_t bytes_read;
  /*
   Reads that failed.
   */
  uint64_t errors;
} rw_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Why the last call of this thread failed, in words; valid until its next call that fails.
 */
const char *rw_error(void);

/*
 Makes a pool of `pool_bytes` bytes in blocks of `block_bytes` (a power of two from 4096 to 16 MiB; at
 least 8 blocks). `policy` names the cache policy ("lru", "ons:threshold=5", ...; NULL: the default).
 Returns NULL on failure.

 # Safety
 `policy` is NULL or a string that ends in zero.
 */
rw_store *rw_store_new(uint64_t pool_bytes,
                       uint32_t block_bytes,
                       const char *policy);

/*
 Frees a pool. Its files must have been closed; its blocks are gone. NULL is nothing.

 # Safety
 `store` is of rw_store_new, was not freed, and nobody uses it.
 */
void rw_store_free(rw_store *store);

/*
 Gets an empty block of the pool to write into, or NULL where for `wait_ms` milliseconds there is none:
 nothing is allocated beside the pool. What it holds at first is anything. Given back by rw_release.

 # Safety
 `store` is of rw_store_new.
 */
uint8_t *rw_alloc(const rw_store *store,
                  uint32_t wait_ms);

/*
 Lets a block go, of rw_alloc or rw_read_block. Blocks of files stay in the pool as long as nothing else
 needs their room. 0, or -1 where the block is not the caller's.

 # Safety
 `store` is of rw_store_new; what `block` points to is not used any more.
 */
int rw_release(const rw_store *store,
               const uint8_t *block);

/*
 Opens a file to be read; NULL on failure.

 # Safety
 `store` is of rw_store_new and freed after the file is closed; `path` is a string that ends in zero.
 */
rw_file *rw_open(const rw_store *store,
                 const char *path);

/*
 Closes a file. Blocks of it that were read stay the caller's until they are released. NULL is nothing.

 # Safety
 `file` is of rw_open, was not closed, and nobody uses it.
 */
void rw_close(rw_file *file);

/*
 Bytes of a file; 0 for NULL.

 # Safety
 `file` is NULL or of rw_open.
 */
uint64_t rw_size(const rw_file *file);

/*
 Moves `*block` to the block of this number of the file: read past the page cache, or, where it is in the
 pool already, not read at all; no byte is copied. A block that `*block` pointed to before is let go
 (NULL: none); it stays where the read fails. Returns the block's bytes (the last one of a file may have
 fewer than others, and there are 0 past its end, where `*block` becomes NULL), or -1. The bytes must not
 be changed.

 # Safety
 `file` is of rw_open; `block` points to NULL or to a block that is the caller's and not used any more.
 */
int64_t rw_read_block(const rw_file *file,
                      uint64_t number,
                      const uint8_t **block);

/*
 Reads `len` bytes of the file from `offset` on into `buffer`; returns how many (fewer at the file's end),
 or -1. A buffer in a block of rw_alloc is read into directly from the disk, past the page cache: address
 and offset must then be multiples of 4096, and so must `len`, and all of it lies in that block. Any other
 is filled through the page cache.

 # Safety
 `file` is of rw_open; `buffer` has room for `len` bytes, which nobody else uses meanwhile.
 */
int64_t rw_pread(const rw_file *file,
                 void *buffer,
                 size_t len,
                 uint64_t offset);

/*
 Begins a file of `len` bytes that is to be `path`: room for it is reserved in whole blocks. Until
 rw_publish it has a hidden name in the same directory. NULL on failure.

 # Safety
 `store` is of rw_store_new; `path` is a string that ends in zero.
 */
rw_draft *rw_create(const rw_store *store, const char *path, uint64_t len);

/*
 Writes the next bytes of a file in the making, in blocks past the page cache. 0, or -1.

 # Safety
 `draft` is of rw_create; `bytes` points to `len` bytes.
 */
int rw_write(rw_draft *draft, const void *bytes, size_t len);

/*
 All bytes were written: brings them to the disk and gives the file its name, in place of what had it
 where `replace` is not 0. 0, or -1, and then nothing is left of it. The draft is ended in any case.

 # Safety
 `draft` is of rw_create and not used any more.
 */
int rw_publish(rw_draft *draft,
               int replace);

/*
 Gives up a file in the making: nothing is left of it. NULL is nothing.

 # Safety
 `draft` is of rw_create and not used any more.
 */
void rw_discard(rw_draft *draft);

/*
 What the store holds and has done, into `stats`. 0, or -1.

 # Safety
 `store` is of rw_store_new; `stats` points to room for them.
 */
int rw_store_stats(const rw_store *store, rw_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* REELWAY_STORE_H */
