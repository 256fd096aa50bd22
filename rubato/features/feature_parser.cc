#include "rubato/features/feature_parser.h"

#include <utility>

#include "rubato/base/status.h"

namespace rubato {
namespace {

class FeatureBlock : public RecordParser::Block {
 public:
  FeatureBlock(const CellReader& reader, const Pipeline& pipeline)
      : reader_(reader), pipeline_(pipeline), chunk_(pipeline.NewChunk()) {}

  absl::Status Add(absl::string_view record) override {
    RUBATO_RETURN_IF_ERROR(reader_.Read(record, &cells_));
    RUBATO_RETURN_IF_ERROR(chunk_.Add(cells_.views));
    if (chunk_.rows() == kChunkRows) Flush();
    return absl::OkStatus();
  }

  void Finish(Batch* batch) override {
    Flush();
    std::swap(*batch, rows_);
    rows_.Clear();
  }

 private:
  static constexpr size_t kChunkRows = 256;

  void Flush() {
    pipeline_.Apply(chunk_, &rows_);
    chunk_.Clear();
  }

  const CellReader& reader_;
  const Pipeline& pipeline_;
  Cells cells_;
  RawChunk chunk_;
  Batch rows_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FeatureParser>> FeatureParser::Create(const DataSpec& data,
                                                                     absl::string_view schema,
                                                                     const FeaturesSpec& features,
                                                                     bool has_labels,
                                                                     const std::string& group) {
  RUBATO_ASSIGN_OR_RETURN(CellReader cells, CellReader::Make(data, schema));
  RUBATO_ASSIGN_OR_RETURN(
      Pipeline pipeline,
      Pipeline::Create(features, cells.columns(),
                       {.label = data.label, .has_labels = has_labels, .group = group}));
  return std::unique_ptr<FeatureParser>(new FeatureParser(std::move(cells), std::move(pipeline)));
}

absl::Status FeatureParser::Parse(absl::string_view record, Batch* batch) const {
  Cells cells;
  RUBATO_RETURN_IF_ERROR(cells_.Read(record, &cells));
  RawChunk chunk = pipeline_.NewChunk();
  RUBATO_RETURN_IF_ERROR(chunk.Add(cells.views));
  pipeline_.Apply(chunk, batch);
  return absl::OkStatus();
}

std::unique_ptr<RecordParser::Block> FeatureParser::NewBlock() const {
  return std::make_unique<FeatureBlock>(cells_, pipeline_);
}

}  // namespace rubato
