// What a job says of single tables, for the tables that its model turned out to have.
#ifndef RUBATO_MODEL_NAMED_TABLES_H_
#define RUBATO_MODEL_NAMED_TABLES_H_

#include "absl/status/status.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"

namespace rubato {

// Gives tables that the job names the rules it has for them, before those that the model asks for
// itself. `optimizer` is the model's, of tables without their own. INVALID_ARGUMENT begins with the
// key, "tables.named.usrs: ...", and names the tables that there are.
absl::Status UseNamedTables(const JobSpec& job, const OptimizerSpec& optimizer,
                            ModelSignature* signature);

}  // namespace rubato

#endif  // RUBATO_MODEL_NAMED_TABLES_H_
