/* Elastic allreduce for training loops in C, or in anything that can call C. What each call
 * promises is said in elastic_group.h; here every call returns 0, or a negative number after which
 * rubato_group_error() says what was wrong, with NULL if there was no group. RUBATO_AGAIN means
 * that someone is gone: begin the step again; RUBATO_FAILED, that there is a mistake in the loop,
 * or that its members do not make the same calls. Sums, broadcasts and barriers are part of a step:
 * from begin_step until commit, or until allreduce_last has returned 0. One thread makes all calls.
 * Who has trained to the end says so, and closes. */
#ifndef RUBATO_ADAPTERS_RING_ELASTIC_GROUP_C_H_
#define RUBATO_ADAPTERS_RING_ELASTIC_GROUP_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_AGAIN (-1) /* The view ended. */
#define RUBATO_FAILED (-2)
#define RUBATO_LEFT (-3) /* After rubato_group_leave: the loop may end. */
#define RUBATO_LATE (-4) /* Not within the time given: wait on, or give up. */

typedef struct rubato_group rubato_group;

enum { RUBATO_LOOPBACK = 0, RUBATO_LAN = 1, RUBATO_WAN = 2 };
enum { RUBATO_FP32 = 0, RUBATO_BF16 = 1, RUBATO_FP16 = 2 };

/* RUBATO_GROUP_OPTIONS_INIT, or all zero, is a good start: set what differs. Later versions add
 * members at the end alone: `size` tells the library how many the caller knows, so that a program
 * need not be built again for a newer library. One built for a newer library than it meets is
 * refused if it has set what that library does not know. */
typedef struct {
  size_t size;        /* sizeof(rubato_group_options); 0: of the first version, up to reserved */
  const char* listen; /* "127.0.0.1:0" if null */
  const char* const* join; /* addresses of members; none founds a group */
  size_t join_count;
  const char* name; /* with secret, the same for all members */
  const char* secret;
  const char* contract; /* what else must be the same, "key: value" a line; may be null */
  int quorum_any;       /* 0: a majority must agree */
  int no_shared_memory; /* 0: members of one machine use it */
  int microbatches;     /* of one step, in all */
  void* const* state;   /* what a newcomer copies, piece by piece; those above 16 KB only apply may
                           change from begin_step until commit returns */
  const size_t* state_bytes;
  size_t state_count;
  /* The reduced buffers to the state. What it throws, or on_change, fails the call that it came
   * from; the state is then as it was left. */
  void (*apply)(void* context);
  void (*on_change)(void* context, uint64_t view, int size); /* may be null */
  void* context;
  int network; /* how patient the detector is: one of RUBATO_LOOPBACK, RUBATO_LAN, RUBATO_WAN */
  int wire;    /* what sums travel as: one of RUBATO_FP32, RUBATO_BF16, RUBATO_FP16 */
  double verdict_timeout_seconds; /* how long commit waits for a next view; 60 if 0 */
  int no_encryption; /* 0: where there is a secret, links are encrypted; the same for all */
  int reserved;      /* 0 */
  /* The step that the state is after, of one who founds a group: a loop that goes on from its own
   * checkpoint begins with the one behind it. Who joins copies the others' state and their step. */
  int64_t first_step;
  /* What a newcomer may keep in memory of the steps that pass while it copies (0: twice the state,
   * and at least 256 MB), and the folder where a file without a name takes the rest, a gradient
   * a step until it is level (null: the system's for temporary files, which may be memory too). */
  int64_t kept_bytes_max;
  const char* kept_folder;
  /* apply calls rubato_group_before_change for what it changes of the state, just before it does:
   * what it leaves alone is copied for newcomers at leisure. 0: all of it changes every step. */
  int64_t names_changes;
} rubato_group_options;

#define RUBATO_GROUP_OPTIONS_INIT \
  { sizeof(rubato_group_options) }

typedef struct {
  int64_t step;
  uint64_t view;
  int begin, end; /* this member's microbatches */
  int rank, size;
} rubato_step;

/* Null if it cannot be opened; rubato_group_error(NULL) then says why. */
rubato_group* rubato_group_open(const rubato_group_options* options);
/* Stays until all members have the last step committed here or are gone, 10 s at most: a loop may
 * close right after commit, and nobody is left in doubt whether that step counts. */
void rubato_group_close(rubato_group* group);

/* RUBATO_FAILED after an allreduce_last that returned 0: commit must come first. */
int rubato_group_begin_step(rubato_group* group, double timeout_seconds, rubato_step* step);
int rubato_group_allreduce(rubato_group* group, float* values, size_t count);
/* The last of a step: commit, which must come next, need not wait for the votes then. */
int rubato_group_allreduce_last(rubato_group* group, float* values, size_t count);
/* Allreduce beside the caller, bucket by bucket in one order for all; commit waits for them. */
int rubato_group_start_allreduce(rubato_group* group, float* values, size_t count);
int rubato_group_wait(rubato_group* group);
int rubato_group_broadcast(rubato_group* group, void* bytes, size_t count, int root);
int rubato_group_barrier(rubato_group* group);
/* 0: applied at all; RUBATO_AGAIN: at none. RUBATO_FAILED without a begin_step before it, or if a
 * commit has ended that step already. */
int rubato_group_commit(rubato_group* group);
/* From apply, if names_changes is set. */
void rubato_group_before_change(rubato_group* group, const void* bytes, size_t count);
/* Asks to go; train on until begin_step returns RUBATO_LEFT. */
void rubato_group_leave(rubato_group* group);
/* Training is over, and committed() says so: for those who came too late to copy the state. */
void rubato_group_say_finished(rubato_group* group);
/* Whether one has said so, and nobody is there any more to take this member further: begin_step
 * then returns RUBATO_LATE for ever, and the loop should end without the state. */
int rubato_group_over(const rubato_group* group);

int64_t rubato_group_step(const rubato_group* group);
int64_t rubato_group_committed(const rubato_group* group);
int rubato_group_size(const rubato_group* group);
int rubato_group_learning(const rubato_group* group);
int rubato_group_encrypted(const rubato_group* group); /* 0: what is sent can be read on the way */
/* The address of member `rank`, valid until the next call; null if there is none. */
const char* rubato_group_member(rubato_group* group, int rank);
const char* rubato_group_address(rubato_group* group);
const char* rubato_group_error(const rubato_group* group);

#ifdef __cplusplus
}
#endif

#endif /* RUBATO_ADAPTERS_RING_ELASTIC_GROUP_C_H_ */
