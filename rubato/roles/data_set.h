// A job's data as its processes see it: indexed once by the supervisor, opened by every worker.
#ifndef RUBATO_ROLES_DATA_SET_H_
#define RUBATO_ROLES_DATA_SET_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "rubato/data/readable.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/master.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

enum class DataPart { kTrain, kValidation };

// Builds the index of one part beside the job, or finds that the one there still holds. Returns
// how many records there are.
absl::StatusOr<int64_t> IndexDataSet(
    const JobSpec& spec, DataPart part, const JobDirectory& directory,
    const std::function<absl::Status(int64_t done, int64_t total)>& show);

// The features as they are now, vocabularies included, become part of the job.
absl::Status KeepFeatures(const JobDirectory& directory, JobSpec* spec);

// What the master must know, from the indexes.
absl::StatusOr<DataShape> ReadDataShape(const JobSpec& spec, const JobDirectory& directory);

struct DataSet {
  std::unique_ptr<RecordSource> train;       // Without what is held back.
  std::unique_ptr<RecordSource> validation;  // Null if the job has none.
  std::unique_ptr<const RecordParser> parser;
  // For validation data that has the columns in another order; null: `parser` reads both.
  std::unique_ptr<const RecordParser> validation_parser;
};
//
// `own_features`: the user's own file of features, of which the directory has a copy that need not
// outlive an error; empty: the copy.
absl::StatusOr<DataSet> OpenDataSet(const JobSpec& spec, const JobDirectory& directory,
                                    const std::string& own_features = "");

// A file of another shape should be found before the first step, not after an epoch.
absl::Status CheckFirstRecords(Readable train, Readable validation);

}  // namespace rubato

#endif  // RUBATO_ROLES_DATA_SET_H_
