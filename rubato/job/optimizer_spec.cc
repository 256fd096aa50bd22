#include "rubato/job/optimizer_spec.h"

#include "rubato/base/status.h"
#include "rubato/job/checks.h"

namespace rubato {
namespace {

absl::Status CheckSchedule(const ScheduleSpec& schedule) {
  RUBATO_RETURN_IF_ERROR(CheckOneOf("optimizer.schedule.name", schedule.name, ScheduleNames()));
  RUBATO_RETURN_IF_ERROR(CheckRange("optimizer.schedule.warmup", schedule.warmup, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("optimizer.schedule.samples", schedule.samples, 0));
  if (schedule.samples == 0 && schedule.name != "constant") {
    return Invalid("optimizer.schedule.samples", "a ", schedule.name,
                   " schedule needs its length in samples");
  }
  RUBATO_RETURN_IF_ERROR(CheckNumber("optimizer.schedule.end", schedule.end, true));
  RUBATO_RETURN_IF_ERROR(CheckNumber("optimizer.schedule.power", schedule.power, false));
  if (schedule.factor > 1) {
    return Invalid("optimizer.schedule.factor", schedule.factor,
                   " is above 1: the learning rate would grow without end");
  }
  return CheckNumber("optimizer.schedule.factor", schedule.factor, false);
}

// Decay by more than all of a weight would turn its sign, and no row could catch up with that.
absl::Status CheckDecay(const OptimizerSpec& spec) {
  if (spec.weight_decay * spec.learning_rate >= 1) {
    return Invalid("optimizer.weight_decay", spec.weight_decay, " times optimizer.learning_rate, ",
                   spec.learning_rate, ", is not less than 1");
  }
  const double end = spec.schedule.name == "constant" ? 0 : spec.schedule.end;
  if (spec.weight_decay * spec.learning_rate * end >= 1) {
    return Invalid("optimizer.schedule.end", end, " times optimizer.learning_rate, ",
                   spec.learning_rate, ", times optimizer.weight_decay, ", spec.weight_decay,
                   ", is not less than 1");
  }
  return absl::OkStatus();
}

// What ftrl has of its own, and what nobody else has.
absl::Status CheckFtrl(const OptimizerSpec& spec) {
  for (const auto& [key, value] :
       {std::pair("optimizer.l1", spec.l1), std::pair("optimizer.l2", spec.l2),
        std::pair("optimizer.beta", spec.beta)}) {
    RUBATO_RETURN_IF_ERROR(CheckNumber(key, value, /*zero_allowed=*/true));
    if (value != 0 && spec.name != "ftrl") {
      return Invalid(key, "is ftrl's; ", spec.name, " has optimizer.weight_decay");
    }
  }
  if (spec.name != "ftrl") return absl::OkStatus();
  if (spec.weight_decay != 0) {
    return Invalid("optimizer.weight_decay", "ftrl has optimizer.l1 and optimizer.l2 instead");
  }
  // Its weights are worked out anew from sums of past gradients, each scaled by the rate.
  if (spec.schedule.name != "constant" || spec.schedule.warmup != 0) {
    return Invalid("optimizer.schedule", "ftrl keeps one learning rate: its weights would jump");
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& OptimizerNames() {
  static const auto& names = *new std::vector<std::string>{
      "sgd",     "momentum", "nesterov", "adagrad", "rowwise_adagrad", "adam", "dense_adam",
      "amsgrad", "adamw",    "rmsprop",  "ftrl"};
  return names;
}

const std::vector<std::string>& ScheduleNames() {
  static const auto& names =
      *new std::vector<std::string>{"constant", "step", "linear", "polynomial", "cosine"};
  return names;
}

absl::Status OptimizerSpec::Validate() const {
  RUBATO_RETURN_IF_ERROR(CheckOneOf("optimizer.name", name, OptimizerNames()));
  RUBATO_RETURN_IF_ERROR(CheckNumber("optimizer.learning_rate", learning_rate, false));
  if (epsilon != -1) RUBATO_RETURN_IF_ERROR(CheckNumber("optimizer.epsilon", epsilon, true));
  for (const auto& [key, value] : {std::pair("optimizer.initial_accumulator", initial_accumulator),
                                   std::pair("optimizer.weight_decay", weight_decay),
                                   std::pair("optimizer.clip_value", clip_value),
                                   std::pair("optimizer.clip_norm", clip_norm)}) {
    RUBATO_RETURN_IF_ERROR(CheckNumber(key, value, /*zero_allowed=*/true));
  }
  for (const auto& [key, value] :
       {std::pair("optimizer.momentum", momentum), std::pair("optimizer.beta1", beta1),
        std::pair("optimizer.beta2", beta2), std::pair("optimizer.alpha", alpha)}) {
    RUBATO_RETURN_IF_ERROR(CheckFraction(key, value));
  }
  if (epsilon == 0 && initial_accumulator == 0) {
    return Invalid("optimizer.epsilon",
                   "0 with optimizer.initial_accumulator 0 divides by zero; make one positive");
  }
  RUBATO_RETURN_IF_ERROR(CheckFtrl(*this));
  RUBATO_RETURN_IF_ERROR(CheckSchedule(schedule));
  return CheckDecay(*this);
}

}  // namespace rubato
