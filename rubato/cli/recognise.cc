#include "rubato/cli/recognise.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/status.h"
#include "rubato/data/record_blocks.h"
#include "rubato/job/plugin_name.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

// What a file begins with, inflated if need be, up to the last whole line.
absl::StatusOr<std::string> BeginningOf(const std::string& path) {
  constexpr size_t kEnough = 1 << 18;
  RUBATO_ASSIGN_OR_RETURN(const IndexedFile file, InspectFile(path));
  RUBATO_ASSIGN_OR_RETURN(const auto stream, OpenStream(file, 0));
  std::string text(kEnough, '\0');
  size_t size = 0;
  while (size < kEnough) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, stream->Read(text.data() + size, kEnough - size));
    if (n == 0) break;
    size += n;
  }
  text.resize(size);
  const size_t last = text.rfind('\n');
  if (size == kEnough && last != std::string::npos) text.resize(last + 1);
  return text;
}

// Whether rows are cells in named columns, whatever is between them.
bool IsTable(absl::string_view format) {
  return format == "csv" || format == "tsv" || format == "ssv" || format == "psv" ||
         format == "sql" || format == "recordio";
}

}  // namespace

std::string FormatOfName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, ".gz")) absl::ConsumeSuffix(&name, ".zst");
  for (const auto& [suffix, format] :
       {std::pair(".csv", "csv"), std::pair(".tsv", "tsv"), std::pair(".ssv", "ssv"),
        std::pair(".psv", "psv"), std::pair(".criteo", "criteo"), std::pair(".libfm", "libfm"),
        std::pair(".libsvm", "libsvm"), std::pair(".svm", "libsvm"), std::pair(".libffm", "libffm"),
        std::pair(".ffm", "libffm"), std::pair(".rec", "recordio"),
        std::pair(".recordio", "recordio")}) {
    if (absl::EndsWith(name, suffix)) return format;
  }
  return "";
}

absl::StatusOr<DataSpec> RecogniseForModel(const DataSpec& trained,
                                           const std::vector<std::string>& data,
                                           const std::string& format) {
  DataSpec spec = trained;
  RUBATO_RETURN_IF_ERROR(CheckSlashes(data[0]));
  if (!format.empty()) {
    spec.format = format;
    return spec;
  }
  if (trained.format == "idx" || IsPlugin(trained.format)) return spec;
  if (IsSqlUri(data[0])) {
    spec.format = "sql";
    return spec;
  }
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandPatterns(data));
  RUBATO_ASSIGN_OR_RETURN(const std::string beginning, BeginningOf(files[0]));
  if (IsRecordsFile(beginning)) {
    spec.format = "recordio";
    return spec;
  }
  // A name that ends as the training data's did says nothing new; and a table is not taken for
  // entries, whose columns have other names.
  const std::string named = FormatOfName(files[0]);
  const bool as_before = !trained.train.empty() && FormatOfName(trained.train[0]) == named &&
                         trained.format != "recordio";
  if (named.empty() || as_before || IsTable(named) != IsTable(trained.format)) return spec;
  spec.format = named;
  return spec;
}

absl::StatusOr<DataSpec> RecogniseData(const std::vector<std::string>& train,
                                       const std::vector<std::string>& validation,
                                       const SniffHints& hints) {
  RUBATO_RETURN_IF_ERROR(CheckSlashes(train[0]));
  if (IsSqlUri(train[0])) {
    if (!hints.format.empty()) {
      return absl::InvalidArgumentError("--format: goes with files, and --data is a database");
    }
    DataSpec data = {.train = train, .validation = validation, .format = "sql"};
    for (std::vector<std::string>* uris : {&data.train, &data.validation}) {
      for (std::string& uri : *uris) uri = AbsoluteSqlUri(uri, fs::current_path());
    }
    return data;
  }
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandPatterns(train));
  RUBATO_ASSIGN_OR_RETURN(const std::string beginning, BeginningOf(files[0]));
  const std::string named = FormatOfName(files[0]);
  absl::StatusOr<DataSpec> data =
      SniffFormat(beginning, {.format = hints.format, .named = named, .label = hints.label});
  if (!data.ok()) return Annotate(data.status(), files[0]);
  // Rows that happen to have equally many entries look the same in both.
  if (hints.format.empty() && data->format == "libfm" && named == "libsvm") data->format = "libsvm";
  if (!validation.empty()) {  // Better told now than when the first pass is over.
    RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPatterns(validation));
    for (const std::string& path : paths) RUBATO_RETURN_IF_ERROR(InspectFile(path).status());
  }
  for (const std::string& path : train) data->train.push_back(fs::absolute(path));
  for (const std::string& path : validation) data->validation.push_back(fs::absolute(path));
  return data;
}

}  // namespace rubato
