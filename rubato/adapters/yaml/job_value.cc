#include "rubato/adapters/yaml/job_value.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

// What was found instead, for messages.
std::string Describe(const YAML::Node& node) {
  if (node.IsScalar()) return absl::StrCat("'", node.Scalar(), "'");
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "keys and values";
  return "nothing";
}

bool ReadTexts(const YAML::Node& node, std::vector<std::string>* texts) {
  texts->clear();
  if (node.IsScalar()) {
    texts->push_back(node.Scalar());
    return true;
  }
  if (!node.IsSequence()) return false;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) return false;
    texts->push_back(item.Scalar());
  }
  return true;
}

// Each answers whether the node was of its type.
struct Reader {
  const YAML::Node& node;

  bool operator()(std::string* v) const {
    if (node.IsScalar()) *v = node.Scalar();
    return node.IsScalar();
  }
  bool operator()(int64_t* v) const {
    return node.IsScalar() && absl::SimpleAtoi(node.Scalar(), v);
  }
  bool operator()(uint64_t* v) const {
    return node.IsScalar() && absl::SimpleAtoi(node.Scalar(), v);
  }
  bool operator()(double* v) const { return node.IsScalar() && absl::SimpleAtod(node.Scalar(), v); }
  bool operator()(bool* v) const {
    if (!node.IsScalar()) return false;
    const std::string text = absl::AsciiStrToLower(node.Scalar());
    *v = text == "true" || text == "yes" || text == "on";
    return *v || text == "false" || text == "no" || text == "off";
  }
  bool operator()(absl::Duration* v) const {
    if (!node.IsScalar()) return false;
    *v = absl::InfiniteDuration();
    return node.Scalar() == "none" || absl::ParseDuration(node.Scalar(), v);
  }
  bool operator()(std::vector<std::string>* v) const { return ReadTexts(node, v); }
  bool operator()(std::map<std::string, std::string>* v) const {
    v->clear();
    if (!node.IsMap()) return false;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return false;
      if (!ReadJobOption(entry.second, &(*v)[entry.first.Scalar()]).ok()) return false;
    }
    return true;
  }
  // Each of their keys has a place of its own: job_file.cc reads them.
  bool operator()(std::map<std::string, TableRules>*) const { return false; }
};

std::string Quoted(const std::string& text) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/' || c == '.' ||
           c == '-';
  };
  const bool starts_plain =
      !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), is_plain);
  if (starts_plain && !YAML::Load(text).IsNull()) return text;
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

struct Writer {
  std::string operator()(std::string* v) const { return Quoted(*v); }
  std::string operator()(std::vector<std::string>* v) const {
    return absl::StrCat("[", absl::StrJoin(*v, ", ", AppendQuoted), "]");
  }
  std::string operator()(std::map<std::string, std::string>* v) const {
    const auto pair = absl::PairFormatter(AppendQuoted, ": ", AppendQuoted);
    return absl::StrCat("{", absl::StrJoin(*v, ", ", pair), "}");
  }
  std::string operator()(std::map<std::string, TableRules>* v) const {
    return FormatNamedTables(*v, Quoted);
  }
  template <typename T>
  std::string operator()(T* v) const {
    return FormatJobField(v);
  }

  static void AppendQuoted(std::string* out, const std::string& text) { *out += Quoted(text); }
};

}  // namespace

absl::Status ReadJobValue(absl::string_view key, const YAML::Node& node, const JobField& field) {
  if (std::visit(Reader{node}, field)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected ", JobFieldType(field), ", found ", Describe(node)));
}

absl::Status ReadJobOption(const YAML::Node& node, std::string* option) {
  std::vector<std::string> texts;
  if (!ReadTexts(node, &texts)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model option is a text or a list of texts, not ", Describe(node)));
  }
  *option = absl::StrJoin(texts, ",");
  return absl::OkStatus();
}

std::string WriteJobValue(const JobField& field) { return std::visit(Writer(), field); }

}  // namespace rubato
