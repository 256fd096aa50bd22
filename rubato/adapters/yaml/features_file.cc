#include "rubato/adapters/yaml/features_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/status.h"
#include "rubato/features/transforms.h"
#include "rubato/features/utf8.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

template <typename... T>
absl::Status Wrong(const T&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::string Describe(const YAML::Node& node) {
  if (node.IsScalar()) return absl::StrCat("'", node.Scalar(), "'");
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "keys and values" : "nothing";
}

// Each reads its type, or says what it expected.
absl::Status Read(const YAML::Node& node, std::string* out) {
  if (!node.IsScalar()) return Wrong("expected a text, found ", Describe(node));
  *out = node.Scalar();
  return absl::OkStatus();
}
absl::Status Read(const YAML::Node& node, int64_t* out) {
  if (node.IsScalar() && absl::SimpleAtoi(node.Scalar(), out)) return absl::OkStatus();
  return Wrong("expected an integer, found ", Describe(node));
}
absl::Status Read(const YAML::Node& node, double* out) {
  if (node.IsScalar() && absl::SimpleAtod(node.Scalar(), out)) return absl::OkStatus();
  return Wrong("expected a number, found ", Describe(node));
}
absl::Status Read(const YAML::Node& node, bool* out) {
  if (node.IsScalar() && YAML::convert<bool>::decode(node, *out)) return absl::OkStatus();
  return Wrong("expected true or false, found ", Describe(node));
}
template <typename T>
absl::Status Read(const YAML::Node& node, std::optional<T>* out) {
  return Read(node, &out->emplace());
}
// A list, or one item without brackets.
template <typename T>
absl::Status Read(const YAML::Node& node, std::vector<T>* out) {
  if (!node.IsSequence()) return Read(node, &out->emplace_back());
  for (const YAML::Node& item : node) RUBATO_RETURN_IF_ERROR(Read(item, &out->emplace_back()));
  return absl::OkStatus();
}

// A word a line; blanks around a word do not count, and the last line break ends the last word.
absl::Status ReadWords(absl::string_view text, std::vector<std::string>* words) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.empty()) return absl::OkStatus();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    words->emplace_back(absl::StripAsciiWhitespace(line));
    if (!IsUtf8(line)) return Wrong("line ", words->size(), " is not UTF-8");
  }
  return absl::OkStatus();
}

class FeaturesReader {
 public:
  FeaturesReader(const std::string& path, FeaturesSpec& spec) : path_(path), spec_(spec) {}

  absl::Status ReadText(absl::string_view text) {
    try {
      const YAML::Node root = YAML::Load(std::string(text));
      if (!root.IsMap()) return Wrong(path_, ": expected the keys label, missing and features");
      std::set<std::string> seen;
      for (const auto& entry : root) {
        RUBATO_RETURN_IF_ERROR(Once(entry.first, &seen));
        RUBATO_RETURN_IF_ERROR(ReadRoot(entry.first.Scalar(), entry.first, entry.second));
      }
    } catch (const YAML::Exception& error) {
      return Wrong(At(error.mark), ": ", error.msg);
    }
    return absl::OkStatus();
  }

 private:
  std::string At(const YAML::Mark& mark) const {
    return mark.is_null() ? path_ : absl::StrCat(path_, ":", mark.line + 1);
  }

  absl::Status Once(const YAML::Node& key, std::set<std::string>* seen) const {
    if (!key.IsScalar()) return Wrong(At(key.Mark()), ": a key must be a plain name");
    if (seen->insert(key.Scalar()).second) return absl::OkStatus();
    return Wrong(At(key.Mark()), ": key '", key.Scalar(), "' was given already");
  }

  absl::Status Unknown(const YAML::Node& key, const std::vector<std::string>& known,
                       absl::string_view whose) const {
    return Wrong(At(key.Mark()), ": unknown key '", key.Scalar(), "'", whose,
                 DidYouMean(key.Scalar(), known));
  }

  absl::Status ReadRoot(const std::string& key, const YAML::Node& at, const YAML::Node& value) {
    const std::string where = absl::StrCat(At(at.Mark()), ": ", key);
    if (key == "missing") return Annotate(Read(value, &spec_.missing), where);
    if (key == "label") return ReadLabel(value, where);
    if (key != "features") return Unknown(at, {"label", "missing", "features"}, "");
    if (!value.IsSequence()) return Wrong(where, ": expected a list, found ", Describe(value));
    for (const YAML::Node& item : value) RUBATO_RETURN_IF_ERROR(ReadFeature(item));
    return absl::OkStatus();
  }

  absl::Status ReadLabel(const YAML::Node& value, const std::string& where) {
    if (!value.IsMap()) return Annotate(Read(value, &spec_.label), where);
    for (const auto& entry : value) {
      const std::string key = entry.first.Scalar();
      if (key == "column") {
        RUBATO_RETURN_IF_ERROR(Annotate(Read(entry.second, &spec_.label), where));
      } else if (key == "positive") {
        RUBATO_RETURN_IF_ERROR(Annotate(Read(entry.second, &spec_.positive), where));
      } else if (key == "negative") {
        RUBATO_RETURN_IF_ERROR(Annotate(Read(entry.second, &spec_.negative), where));
      } else if (key == "at_least") {
        double number = 0;
        RUBATO_RETURN_IF_ERROR(Annotate(Read(entry.second, &number), where));
        spec_.at_least = number;
      } else {
        return Unknown(entry.first, {"column", "positive", "negative", "at_least"}, " of label");
      }
    }
    return absl::OkStatus();
  }

  // Which keys a feature may have its transform says; that one alone is known without.
  absl::Status NoTransform(const YAML::Node& node) const {
    for (const auto& entry : node) {
      if (entry.first.IsScalar() && !DidYouMean(entry.first.Scalar(), {"transform"}).empty()) {
        return Unknown(entry.first, {"transform"}, " of a feature");
      }
    }
    return Wrong(At(node.Mark()), ": a feature needs a transform");
  }

  absl::Status ReadFeature(const YAML::Node& node) {
    if (!node.IsMap()) {
      return Wrong(At(node.Mark()), ": a feature has keys and values, not ", Describe(node));
    }
    FeatureSpec f;
    f.where = At(node.Mark());
    if (!node["transform"]) return NoTransform(node);
    RUBATO_RETURN_IF_ERROR(Annotate(Read(node["transform"], &f.transform), f.where));
    std::vector<std::string> known = {"name", "column", "columns", "transform"};
    const std::vector<std::string>& more = TransformKeys(f.transform);
    known.insert(known.end(), more.begin(), more.end());
    std::set<std::string> seen;
    for (const auto& entry : node) {
      RUBATO_RETURN_IF_ERROR(Once(entry.first, &seen));
      const std::string key = entry.first.Scalar();
      // An unknown transform has no keys; that itself is said by Validate().
      if (!more.empty() && std::find(known.begin(), known.end(), key) == known.end()) {
        return Unknown(entry.first, known, absl::StrCat(" of ", f.transform));
      }
      RUBATO_RETURN_IF_ERROR(Annotate(ReadKey(key, entry.second, &f),
                                      absl::StrCat(At(entry.first.Mark()), ": ", key)));
    }
    if (f.name.empty() && f.columns.size() == 1) f.name = f.columns[0];
    spec_.features.push_back(std::move(f));
    return absl::OkStatus();
  }

  absl::Status ReadKey(const std::string& key, const YAML::Node& value, FeatureSpec* f) {
    if (key == "name") return Read(value, &f->name);
    if (key == "column" || key == "columns") return Read(value, &f->columns);
    if (key == "mean") return Read(value, &f->mean);
    if (key == "deviation") return Read(value, &f->deviation);
    if (key == "min") return Read(value, &f->min);
    if (key == "max") return Read(value, &f->max);
    if (key == "boundaries") return Read(value, &f->boundaries);
    if (key == "base") return Read(value, &f->base);
    if (key == "buckets") {
      RUBATO_RETURN_IF_ERROR(Read(value, &f->buckets));
      // In a spec 0 means that none are asked for, and here somebody asks for none.
      if (f->buckets == 0) return Wrong(f->transform, " needs 1 or more, not 0");
    }
    if (key == "outside") return Read(value, &f->outside);
    if (key == "oov") return Read(value, &f->oov);
    if (key == "offsets") return Read(value, &f->offsets);
    if (key == "default") return Read(value, &f->otherwise);
    if (key == "missing") return Read(value, &f->missing);
    if (key == "separator") return Read(value, &f->separator);
    if (key == "weight_separator") return Read(value, &f->weight_separator);
    if (key == "brackets") return Read(value, &f->brackets);
    if (key == "values_max") return Read(value, &f->values_max);
    if (key == "combiner") return Read(value, &f->combiner);
    if (key == "read") return Read(value, &f->read);
    if (key == "part") return Read(value, &f->part);
    if (key == "unit") return Read(value, &f->unit);
    if (key == "date") return Read(value, &f->date);
    if (key == "vocabulary") {
      return value.IsScalar() ? ReadWords(value.Scalar(), &f->vocabulary)
                              : Read(value, &f->vocabulary);
    }
    if (key == "vocabulary_file") return ReadVocabularyFile(value, f);
    if (key == "decimal") {
      std::string sign;
      RUBATO_RETURN_IF_ERROR(Read(value, &sign));
      f->decimal_comma = sign == "comma";
      if (sign != "comma" && sign != "point") return Wrong("'", sign, "' is not point or comma");
    }
    if (key == "malformed") {
      std::string rule;
      RUBATO_RETURN_IF_ERROR(Read(value, &rule));
      f->malformed_is_missing = rule == "missing";
      if (rule != "missing" && rule != "fail") return Wrong("'", rule, "' is not fail or missing");
    }
    return absl::OkStatus();
  }

  absl::Status ReadVocabularyFile(const YAML::Node& value, FeatureSpec* f) {
    std::string name;
    RUBATO_RETURN_IF_ERROR(Read(value, &name));
    if (!f->vocabulary.empty()) return Wrong("there is a vocabulary already");
    const std::string path = (fs::absolute(path_).parent_path() / name).lexically_normal();
    RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
    RUBATO_RETURN_IF_ERROR(Annotate(ReadWords(text, &f->vocabulary), path));
    // Here, since later nobody knows the file any more.
    return Annotate(Vocabulary::Make(f->vocabulary).status(), path);
  }

  const std::string path_;
  FeaturesSpec& spec_;
};

}  // namespace

absl::StatusOr<FeaturesSpec> LoadFeaturesFile(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  return ParseFeaturesText(text, path);
}

absl::StatusOr<FeaturesSpec> ParseFeaturesText(absl::string_view text, const std::string& path) {
  FeaturesSpec spec;
  RUBATO_RETURN_IF_ERROR(FeaturesReader(path, spec).ReadText(text));
  const absl::Status status = spec.Validate();
  const bool has_place = status.message().substr(0, path.size()) == path;
  RUBATO_RETURN_IF_ERROR(has_place ? status : Annotate(status, path));
  return spec;
}

}  // namespace rubato
