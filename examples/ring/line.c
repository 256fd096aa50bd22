/* ring_line [-l LISTEN] [-n STEPS] [-c FILE] [-t SECONDS] [-m] [-v] [ADDRESS]: fits y = 3x + 1,
 * seen through noise, with whoever is there. -c goes on from the checkpoint in FILE, if there is
 * one, and keeps one there at the end; -t says how long it waits to be let in at ADDRESS; -m trains
 * only with a majority, and over TCP alone, as between machines; -v prints every step, to the last
 * bit of its weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rubato/adapters/ring/elastic_group_c.h"

enum { kMicrobatches = 16, kSamples = 64 };

struct Model {
  float weights[2];
  float gradients[2];
};

static void Apply(void* context) {
  struct Model* model = context;
  for (int i = 0; i < 2; ++i) {
    model->weights[i] -= 0.1f * model->gradients[i] / (kMicrobatches * kSamples);
  }
}

static void OnChange(void* context, uint64_t view, int size) {
  (void)context;
  fprintf(stderr, "view %llu: %d members\n", (unsigned long long)view, size);
}

/* A number from -1 to 1, of its place alone, whoever draws it. */
static float Draw(int64_t step, int microbatch, int i) {
  uint64_t h = (uint64_t)step * 1000003u + (uint64_t)(microbatch * 2 * kSamples + i) * 7919u;
  h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15u;
  return (float)(h >> 40) / (float)(1 << 24) * 2 - 1;
}

static void AddGradients(struct Model* model, const rubato_step* step) {
  memset(model->gradients, 0, sizeof(model->gradients));
  for (int m = step->begin; m < step->end; ++m) {
    for (int i = 0; i < kSamples; ++i) {
      const float x = Draw(step->step, m, i);
      /* Without noise the weights would come to rest, and no step would differ from the next. */
      const float y = 3 * x + 1 + 0.1f * Draw(step->step, m, kSamples + i);
      const float error = model->weights[0] * x + model->weights[1] - y;
      model->gradients[0] += error * x;
      model->gradients[1] += error;
    }
  }
}

/* The step that the weights are after; 0 if there is no checkpoint. */
static int64_t Load(const char* path, struct Model* model) {
  long long step = 0;
  FILE* file = path != NULL ? fopen(path, "r") : NULL;
  if (file == NULL) return 0;
  const int read = fscanf(file, "%lld %a %a", &step, &model->weights[0], &model->weights[1]);
  fclose(file);
  if (read == 3) return step;
  fprintf(stderr, "ring_line: %s is no checkpoint\n", path);
  exit(1);
}

/* Beside the one before, and in its place once it is whole. */
static int Save(const char* path, int64_t step, const struct Model* model) {
  char beside[4096];
  const int length = snprintf(beside, sizeof(beside), "%s.tmp", path);
  FILE* file = length < (int)sizeof(beside) ? fopen(beside, "w") : NULL;
  if (file == NULL) return -1;
  fprintf(file, "%lld %a %a\n", (long long)step, model->weights[0], model->weights[1]);
  if (fflush(file) != 0 || fsync(fileno(file)) != 0) {
    fclose(file);
    return -1;
  }
  return fclose(file) == 0 ? rename(beside, path) : -1;
}

int main(int argc, char** argv) {
  struct Model model = {{0, 0}, {0, 0}};
  const char* listen = NULL;
  const char* checkpoint = NULL;
  int steps = 300, majority = 0, every = 50;
  double patience = 60, waited = 0;
  for (int c; (c = getopt(argc, argv, "l:n:c:t:mv")) != -1;) {
    if (c == 'l') listen = optarg;
    if (c == 'n') steps = atoi(optarg);
    if (c == 'c') checkpoint = optarg;
    if (c == 't') patience = atof(optarg);
    if (c == 'm') majority = 1;
    if (c == 'v') every = 1;
    if (c == '?') return 2;
  }
  void* state[] = {model.weights};
  const size_t state_bytes[] = {sizeof(model.weights)};
  const char* join[] = {optind < argc ? argv[optind] : ""};
  const rubato_group_options options = {.size = sizeof(options),
                                        .listen = listen,
                                        .join = join,
                                        .join_count = optind < argc ? 1 : 0,
                                        .quorum_any = !majority,
                                        .no_shared_memory = majority,
                                        .microbatches = kMicrobatches,
                                        .state = state,
                                        .state_bytes = state_bytes,
                                        .state_count = 1,
                                        .apply = Apply,
                                        .on_change = OnChange,
                                        .context = &model,
                                        .verdict_timeout_seconds = 5,
                                        .first_step = Load(checkpoint, &model)};
  rubato_group* group = rubato_group_open(&options);
  if (group == NULL) {
    fprintf(stderr, "ring_line: %s\n", rubato_group_error(NULL));
    return 1;
  }
  fprintf(stderr, "address %s\n", rubato_group_address(group));
  while (rubato_group_step(group) < steps) {
    rubato_step step;
    const double wait = rubato_group_size(group) == 0 && patience < 5 ? patience : 5;
    const int begun = rubato_group_begin_step(group, wait, &step);
    if (begun == RUBATO_LEFT) break;
    if (begun == RUBATO_LATE && rubato_group_over(group)) {
      fprintf(stderr, "the others have trained to the end; this one came too late to have it\n");
      break;
    }
    if (begun == RUBATO_LATE && rubato_group_size(group) == 0) { /* In no view yet. */
      fprintf(stderr, "ring_line: %s\n", rubato_group_error(group));
      if ((waited += wait) >= patience) {
        fprintf(stderr, "ring_line: nobody has let this one in for %g s\n", waited);
        return 1;
      }
    }
    if (begun == RUBATO_LATE) { /* No majority yet: wait for it. */
      if (every == 1 && rubato_group_size(group) > 0) {
        fprintf(stderr, "ring_line: %s\n", rubato_group_error(group));
      }
      continue;
    }
    if (begun != 0) { /* The group there trains something else, say. */
      fprintf(stderr, "ring_line: %s\n", rubato_group_error(group));
      return 1;
    }
    AddGradients(&model, &step);
    usleep(10000); /* A heavier model. */
    if (rubato_group_allreduce_last(group, model.gradients, 2) != 0) continue;
    if (rubato_group_commit(group) != 0) continue;
    if (step.step % every == 0 && !rubato_group_learning(group)) {
      printf("step %lld: y = %.6f x + %.6f (%d members)", (long long)step.step, model.weights[0],
             model.weights[1], rubato_group_size(group));
      if (every == 1) printf(" %a %a", model.weights[0], model.weights[1]);
      printf("\n");
      fflush(stdout);
    }
  }
  const int64_t last = rubato_group_step(group);
  if (last >= steps) rubato_group_say_finished(group);
  rubato_group_close(group); /* Stays until the others have the last step too. */
  if (checkpoint != NULL && last >= steps && Save(checkpoint, last, &model) != 0) {
    perror(checkpoint);
    return 1;
  }
  return 0;
}
