#include "rubato/roles/data_set.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/adapters/yaml/features_file.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/formats.h"
#include "rubato/data/holdout.h"
#include "rubato/data/record_blocks.h"
#include "rubato/data/record_index.h"
#include "rubato/data/spread.h"
#include "rubato/features/feature_parser.h"
#include "rubato/roles/open_data.h"

namespace rubato {
namespace {

absl::StatusOr<std::vector<DataFile>> FilesOf(const std::string& index_path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(index_path));
  absl::StatusOr<RecordIndex> index = RecordIndex::Decode(bytes);
  if (!index.ok()) return Annotate(index.status(), index_path);
  std::vector<DataFile> files;
  for (const IndexedFile& file : index->files) {
    if (file.records > 0)
      files.push_back({.name = WithoutPassword(file.path), .records = file.records});
  }
  return files;
}

// The files of one part, with so many of their records as are in it.
std::vector<DataFile> PartOf(const std::vector<DataFile>& files, Holdout holdout, bool held) {
  std::vector<DataFile> part;
  int64_t first = 0;
  for (const DataFile& file : files) {
    const int64_t end = first + file.records;
    const int64_t in_it = holdout.HeldOf(end) - holdout.HeldOf(first);
    const int64_t records = held ? in_it : file.records - in_it;
    const char* which = held ? "the rows held back of " : "the rows not held back of ";
    if (records > 0) part.push_back({.name = which + file.name, .records = records});
    first = end;
  }
  return part;
}

// Data of no more bytes is held by every worker, and each record comes from elsewhere.
constexpr int64_t kHeldBytesMax = int64_t{128} << 20;

// Training's records in the order in which tasks are cut from them.
void SpreadRecords(const JobSpec& spec, const OpenedData& opened,
                   std::unique_ptr<RecordSource>* train) {
  if (!spec.shuffle.spreads()) return;
  const bool hold = opened.bytes <= kHeldBytesMax;
  if (!hold && !opened.seeks) return;
  *train = Spread(std::move(*train), hold ? 1 : kRecordsPerMark, hold);
}

absl::Status ParseFirst(Readable data) {
  if (data.records() == 0) return absl::OkStatus();
  return data.source->Read(0, 1, [&](int64_t record, absl::string_view bytes) {
    Batch batch;
    return Annotate(data.parser->Parse(bytes, &batch), data.source->Locate(record));
  });
}

// A parser for validation data whose columns are not training's one by one; null if they are.
// Columns go by name, where they have names. Fields of libffm are named in every record: those that
// training did not see are left out, as ids are that it did not see, and a record without some of
// them is none the worse.
absl::StatusOr<std::unique_ptr<const RecordParser>> ParserForValidation(
    const JobSpec& spec, const std::optional<FeaturesSpec>& features, absl::string_view trained,
    absl::string_view schema) {
  const DataSpec& data = spec.data;
  const auto [format, before] = UnwrapSchema(data, trained);
  const auto [now, columns] = UnwrapSchema(data, schema);
  if (format.format == "libffm") {
    RUBATO_RETURN_IF_ERROR(CheckFieldsKnown(before, columns));
    return nullptr;
  }
  if (schema == trained) return nullptr;
  if (!IsDelimited(format) || !IsDelimited(now)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has the columns '", schema, "', but data.train has '", trained, "'"));
  }
  if (!features.has_value()) {
    return MakeParserLike({data, trained}, {data, schema}, /*has_labels=*/true);
  }
  const std::string& label = features->label.empty() ? data.label : features->label;
  RUBATO_ASSIGN_OR_RETURN(const NamedData named, NameAsTrained({data, trained}, {data, schema},
                                                               label, /*has_labels=*/true));
  return FeatureParser::Create(named.data, named.schema, *features, /*has_labels=*/true,
                               spec.evaluate.group);
}

// Where features read the columns, what the format would make of them does not matter. What can
// be said of validation data only beside training's is for OpenDataSet(): it need not have all
// fields of libffm, and may have more.
absl::StatusOr<FileSourceOptions> ReadBy(const JobSpec& spec, DataPart part) {
  const bool is_validation = part == DataPart::kValidation;
  std::optional<FeaturesSpec> features;
  if (!spec.features.empty()) {
    RUBATO_ASSIGN_OR_RETURN(features, LoadFeaturesFile(spec.features));
  }
  FileSourceOptions options;
  if (!features.has_value() && !is_validation) return options;
  options.check = [data = spec.data, is_validation,
                   features = std::move(features)](const std::string& schema) {
    const bool has_fields = UnwrapSchema(data, schema).first.format == "libffm";
    // A label without a name is training's first column, wherever it is here.
    const bool has_no_label = !features.has_value() && data.label.empty();
    if (is_validation && (has_fields || has_no_label)) return absl::OkStatus();
    return features.has_value() ? FeatureParser::Create(data, schema, *features).status()
                                : MakeParser(data, schema).status();
  };
  return options;
}

}  // namespace

absl::StatusOr<int64_t> IndexDataSet(
    const JobSpec& spec, DataPart part, const JobDirectory& directory,
    const std::function<absl::Status(int64_t done, int64_t total)>& show) {
  const bool train = part == DataPart::kTrain;
  const char* key = train ? "data.train" : "data.validation";
  absl::StatusOr<std::vector<std::string>> files = train ? spec.data.train : spec.data.validation;
  if (spec.data.format == "idx") files = FindIdxFiles(*files, train ? "train" : "t10k");
  if (!files.ok()) return Annotate(files.status(), key);
  RUBATO_ASSIGN_OR_RETURN(const FileSourceOptions options, ReadBy(spec, part));
  absl::StatusOr<int64_t> records =
      IndexAnyData(spec.data, *files,
                   train ? directory.train_index() : directory.validation_index(), show, options);
  if (!records.ok()) return Annotate(records.status(), key);
  return records;
}

absl::Status KeepFeatures(const JobDirectory& directory, JobSpec* spec) {
  if (spec->features.empty()) return absl::OkStatus();
  RUBATO_ASSIGN_OR_RETURN(const FeaturesSpec features, LoadFeaturesFile(spec->features));
  spec->features = directory.features();
  return WriteFileAtomically(directory.features(), FormatFeaturesText(features));
}

absl::StatusOr<DataShape> ReadDataShape(const JobSpec& spec, const JobDirectory& directory) {
  DataShape shape;
  RUBATO_ASSIGN_OR_RETURN(shape.train, FilesOf(directory.train_index()));
  if (spec.data.holdout_every > 0) {
    const Holdout holdout(spec.data.holdout_every);
    shape.validation = PartOf(shape.train, holdout, /*held=*/true);
    shape.train = PartOf(shape.train, holdout, /*held=*/false);
  } else if (!spec.data.validation.empty()) {
    RUBATO_ASSIGN_OR_RETURN(shape.validation, FilesOf(directory.validation_index()));
  }
  return shape;
}

absl::StatusOr<DataSet> OpenDataSet(const JobSpec& spec, const JobDirectory& directory,
                                    const std::string& own_features) {
  RUBATO_ASSIGN_OR_RETURN(const FileSourceOptions options, ReadBy(spec, DataPart::kTrain));
  RUBATO_ASSIGN_OR_RETURN(OpenedData train,
                          OpenAnyData(spec.data, directory.train_index(), options));
  DataSet set = {.train = std::move(train.source), .parser = std::move(train.parser)};
  std::optional<FeaturesSpec> features;
  if (!spec.features.empty()) {
    RUBATO_ASSIGN_OR_RETURN(
        features, LoadFeaturesFile(own_features.empty() ? directory.features() : own_features));
    RUBATO_ASSIGN_OR_RETURN(set.parser,
                            FeatureParser::Create(spec.data, train.schema, *features,
                                                  /*has_labels=*/true, spec.evaluate.group));
  }
  if (spec.data.holdout_every > 0) {
    const Holdout holdout(spec.data.holdout_every);
    RUBATO_ASSIGN_OR_RETURN(OpenedData again,
                            OpenAnyData(spec.data, directory.train_index(), options));
    set.train = TakePart(std::move(set.train), holdout, /*held=*/false);
    set.validation = TakePart(std::move(again.source), holdout, /*held=*/true);
    if (set.validation->records() == 0 || set.train->records() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("data.holdout_every: of ", set.validation->records() + set.train->records(),
                       " rows one in every ", spec.data.holdout_every, " leaves none to ",
                       set.train->records() == 0 ? "train on" : "evaluate on"));
    }
  } else if (!spec.data.validation.empty()) {
    RUBATO_ASSIGN_OR_RETURN(const FileSourceOptions as_trained,
                            ReadBy(spec, DataPart::kValidation));
    RUBATO_ASSIGN_OR_RETURN(OpenedData validation,
                            OpenAnyData(spec.data, directory.validation_index(), as_trained));
    auto parser = ParserForValidation(spec, features, train.schema, validation.schema);
    if (!parser.ok()) return Annotate(parser.status(), "data.validation");
    set.validation_parser = *std::move(parser);
    set.validation = std::move(validation.source);
  }
  SpreadRecords(spec, train, &set.train);
  return set;
}

absl::Status CheckFirstRecords(Readable train, Readable validation) {
  RUBATO_RETURN_IF_ERROR(ParseFirst(train));
  return ParseFirst(validation);
}

}  // namespace rubato
