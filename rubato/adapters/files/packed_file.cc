#include "rubato/adapters/files/packed_file.h"

#include <utility>

#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

absl::StatusOr<PackedFile> PackedFile::Create(const std::string& path, bool gzip) {
  RUBATO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  return PackedFile(std::move(file), gzip);
}

absl::Status PackedFile::Write(absl::string_view bytes) {
  chunk_.append(bytes.data(), bytes.size());
  return chunk_.size() < kChunkBytes ? absl::OkStatus() : Flush();
}

absl::Status PackedFile::Flush() {
  if (packer_ != nullptr) packer_->Write(chunk_, &packed_);
  RUBATO_RETURN_IF_ERROR(file_.Write(packer_ != nullptr ? packed_ : chunk_));
  chunk_.clear();
  packed_.clear();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PackedFile::Commit() {
  RUBATO_RETURN_IF_ERROR(Flush());
  if (packer_ != nullptr) packer_->Finish(&packed_);
  RUBATO_RETURN_IF_ERROR(file_.Write(packed_));
  RUBATO_RETURN_IF_ERROR(file_.Commit(Durability::kProcess));
  return file_.size();
}

}  // namespace rubato
