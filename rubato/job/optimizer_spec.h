// How a user says how weights move: `optimizer` of the job file. What the names mean is in
// params/optimizer.h and params/learning_rate.h.
#ifndef RUBATO_JOB_OPTIMIZER_SPEC_H_
#define RUBATO_JOB_OPTIMIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace rubato {

// The learning rate as a function of the samples trained so far.
struct ScheduleSpec {
  std::string name = "constant";  // constant, step, linear, polynomial, cosine.
  int64_t warmup = 0;             // Samples over which the rate climbs from 0; before all else.
  int64_t samples = 0;            // linear, polynomial, cosine: samples until `end`. step: a step.
  double end = 0;                 // linear, polynomial, cosine: the last rate, as a fraction.
  double power = 2;               // polynomial
  double factor = 0.1;            // step: what the rate is multiplied with.
  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

struct OptimizerSpec {
  std::string name = "adagrad";  // One of OptimizerNames().
  double learning_rate = 0.01;
  double epsilon = -1;               // -1: 1e-10 for the two Adagrads, 1e-8 for the others.
  double initial_accumulator = 0.0;  // adagrad, rowwise_adagrad, ftrl
  double momentum = 0.9;             // momentum, nesterov
  double beta1 = 0.9;                // adam, amsgrad, adamw
  double beta2 = 0.999;              // adam, amsgrad, adamw
  double alpha = 0.99;               // rmsprop
  double weight_decay = 0;           // All but ftrl.
  double l1 = 0;                     // ftrl
  double l2 = 0;                     // ftrl
  double beta = 0;                   // ftrl
  double clip_value = 0;             // No element of a gradient passes it; 0: any may.
  double clip_norm = 0;              // Nor the norm of a whole step's gradient; 0: it may.
  ScheduleSpec schedule;

  // INVALID_ARGUMENT that names the key, its value and the remedy.
  absl::Status Validate() const;
  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

const std::vector<std::string>& OptimizerNames();
const std::vector<std::string>& ScheduleNames();

// Calls visit("key", field) for every field, so that whoever writes, reads or compares a spec names
// none of them. Spec is OptimizerSpec, const or not.
template <typename Spec, typename Visitor>
void VisitOptimizerFields(Spec& spec, Visitor visit) {
  visit("optimizer", spec.name);
  visit("learning_rate", spec.learning_rate);
  visit("epsilon", spec.epsilon);
  visit("initial_accumulator", spec.initial_accumulator);
  visit("momentum", spec.momentum);
  visit("beta1", spec.beta1);
  visit("beta2", spec.beta2);
  visit("alpha", spec.alpha);
  visit("weight_decay", spec.weight_decay);
  visit("l1", spec.l1);
  visit("l2", spec.l2);
  visit("beta", spec.beta);
  visit("clip_value", spec.clip_value);
  visit("clip_norm", spec.clip_norm);
  visit("schedule.name", spec.schedule.name);
  visit("schedule.warmup", spec.schedule.warmup);
  visit("schedule.samples", spec.schedule.samples);
  visit("schedule.end", spec.schedule.end);
  visit("schedule.power", spec.schedule.power);
  visit("schedule.factor", spec.schedule.factor);
}

}  // namespace rubato

#endif  // RUBATO_JOB_OPTIMIZER_SPEC_H_
