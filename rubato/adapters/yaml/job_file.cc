#include "rubato/adapters/yaml/job_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/adapters/yaml/job_value.h"
#include "rubato/adapters/yaml/table_rules_file.h"
#include "rubato/base/status.h"
#include "rubato/job/job_keys.h"
#include "rubato/job/plugin_name.h"
#include "rubato/job/suggest.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

const JobKey* FindKey(absl::string_view name) {
  for (const JobKey& key : JobKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// What may stand at one level of the file: under "data." it is train, validation and so on.
std::vector<std::string> NamesUnder(absl::string_view section) {
  std::vector<std::string> names;
  for (const JobKey& key : JobKeys()) {
    absl::string_view rest = key.name;
    if (!absl::ConsumePrefix(&rest, section)) continue;
    const std::string name(rest.substr(0, rest.find('.')));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

absl::Status UnknownKey(absl::string_view section, const std::string& name) {
  std::string hint = DidYouMean(name, NamesUnder(section));
  for (const JobKey& key : JobKeys()) {
    // The right name in the wrong place.
    if (hint.empty() && absl::EndsWith(key.name, absl::StrCat(".", name))) {
      hint = absl::StrCat("; did you mean '", key.name, "'?");
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown key '", section, name, "'", hint));
}

void MakeAbsolute(const fs::path& folder, std::string& path) {
  constexpr absl::string_view kSqlite = "sqlite://";
  if (absl::StartsWith(path, kSqlite)) {  // What follows is a path, and may be relative.
    path =
        absl::StrCat(kSqlite, (folder / path.substr(kSqlite.size())).lexically_normal().string());
  } else if (!path.empty() && !absl::StrContains(path, "://")) {
    path = (folder / path).lexically_normal().string();
  }
}

// One reading of a job file: the spec as it fills, and where each key was given.
class JobReader {
 public:
  JobReader(const std::string& path, JobSpec& spec)
      : path_(path), folder_(fs::absolute(path).parent_path()), spec_(spec) {}

  const JobPlaces& places() const { return places_; }

  absl::Status ReadText(absl::string_view text) {
    try {
      const YAML::Node root = YAML::Load(std::string(text));
      if (root.IsNull()) {
        return absl::InvalidArgumentError(absl::StrCat(path_, ": the job file is empty"));
      }
      return ReadMap(root, "");
    } catch (const YAML::Exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(At(error.mark), ": ", error.msg));
    }
  }

  // "key=value". Text is taken as it stands, so that globs need no quotes; [ and { begin YAML.
  absl::Status ReadOverride(const std::string& set) {
    const std::string origin = absl::StrCat("--set ", WithoutPassword(set));
    const size_t equals = set.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": expected key=value"));
    }
    const std::string name = set.substr(0, equals), value = set.substr(equals + 1);
    try {
      const bool is_yaml = absl::StartsWith(value, "[") || absl::StartsWith(value, "{");
      const YAML::Node node = is_yaml ? YAML::Load(value) : YAML::Node(value);
      if (name == kNamedTables) {
        return NamedTables().Read(node, [&](const YAML::Node&) { return origin; });
      }
      return Annotate(Override(name, node, origin), origin);
    } catch (const YAML::Exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": ", error.msg));
    }
  }

  // The address of a database says of itself how it is read: a job need not say so too, and may
  // not say otherwise. A plug-in understands what it likes.
  absl::Status ReadAddresses() {
    DataSpec& data = spec_.data;
    const bool is_given = places_.contains("data.format");
    if (!is_given && !data.train.empty() && IsSqlUri(data.train[0])) data.format = "sql";
    if (data.format == "sql" || IsPlugin(data.format)) return absl::OkStatus();
    for (const auto& [key, places] :
         {std::pair("data.train", &data.train), std::pair("data.validation", &data.validation)}) {
      const auto found = std::find_if(places->begin(), places->end(), IsSqlUri);
      if (found == places->end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(is_given ? "data.format" : key, ": ", WithoutPassword(*found),
                       " is in a database, which is `format: sql`, not ", data.format));
    }
    return absl::OkStatus();
  }

 private:
  std::string At(const YAML::Mark& mark) const {
    return mark.is_null() ? path_ : absl::StrCat(path_, ":", mark.line + 1);
  }

  // `section` is "" or ends with a dot.
  absl::Status ReadMap(const YAML::Node& map, const std::string& section) {
    if (!map.IsMap()) {
      const std::string what =
          section.empty() ? "the job file" : section.substr(0, section.size() - 1);
      return absl::InvalidArgumentError(
          absl::StrCat(At(map.Mark()), ": ", what, ": expected keys and values"));
    }
    for (const auto& entry : map) {
      const std::string at = At(entry.first.Mark());
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrCat(at, ": a key must be a plain name"));
      }
      const std::string name = entry.first.Scalar(), full = section + name;
      RUBATO_RETURN_IF_ERROR(Annotate(Once(full, at), at));
      if (full == kNamedTables) {
        const auto place = [this](const YAML::Node& node) { return At(node.Mark()); };
        RUBATO_RETURN_IF_ERROR(NamedTables().Read(entry.second, place));
      } else if (const JobKey* key = FindKey(full)) {
        RUBATO_RETURN_IF_ERROR(Annotate(Assign(*key, entry.second, at, folder_), at));
      } else if (!NamesUnder(full + ".").empty()) {
        RUBATO_RETURN_IF_ERROR(ReadMap(entry.second, full + "."));
      } else {
        return Annotate(UnknownKey(section, name), at);
      }
    }
    return absl::OkStatus();
  }

  // yaml-cpp lets a key stand twice, and one of the two would be lost.
  absl::Status Once(const std::string& name, const std::string& at) {
    const auto [origin, is_first] = places_.emplace(name, at);
    if (is_first) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("key '", name, "' was given already at ", origin->second));
  }

  absl::Status Override(const std::string& name, const YAML::Node& value,
                        const std::string& origin) {
    absl::string_view option = name;
    if (absl::ConsumePrefix(&option, "model_options.") && !option.empty()) {
      return ReadJobOption(value, &spec_.model_options[std::string(option)]);
    }
    if (absl::ConsumePrefix(&option, absl::StrCat(kNamedTables, "."))) {
      return NamedTables().ReadOne(option, value, origin);
    }
    const JobKey* key = FindKey(name);
    if (key != nullptr) return Assign(*key, value, origin, fs::current_path());
    const size_t dot = name.rfind('.');
    const std::string section = dot == std::string::npos ? "" : name.substr(0, dot + 1);
    if (!NamesUnder(name + ".").empty()) {
      return absl::InvalidArgumentError(absl::StrCat("'", name,
                                                     "' is a section; set one of its keys, ", name,
                                                     ".", NamesUnder(name + ".")[0]));
    }
    return UnknownKey(section, name.substr(section.size()));
  }

  absl::Status Assign(const JobKey& key, const YAML::Node& value, const std::string& origin,
                      const fs::path& folder) {
    places_[key.name] = origin;
    RUBATO_RETURN_IF_ERROR(ReadJobValue(key.name, value, key.field(spec_)));
    if (key.name == "data.train" || key.name == "data.validation") {
      auto& paths = *std::get<std::vector<std::string>*>(key.field(spec_));
      for (std::string& path : paths) MakeAbsolute(folder, path);
    }
    if (key.name == "features") MakeAbsolute(folder, spec_.features);
    if (key.name == "model" && IsPlugin(spec_.model)) MakeAbsolute(folder, spec_.model);
    if (key.name == "data.format" && IsPlugin(spec_.data.format)) {
      MakeAbsolute(folder, spec_.data.format);
    }
    return absl::OkStatus();
  }

  NamedTablesReader NamedTables() { return NamedTablesReader(spec_.named_tables, places_); }

  const std::string path_;
  const fs::path folder_;
  JobSpec& spec_;
  JobPlaces places_;
};

// What a job is called after its file: every run of characters that a job's name may not have
// becomes one '-'.
std::string NameAfter(absl::string_view stem) {
  std::string name;
  for (const char c : stem) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                       (c == '.' && !name.empty());
    if (plain) {
      name.push_back(c);
    } else if (!name.empty() && name.back() != '-') {
      name.push_back('-');
    }
  }
  name.resize(std::min<size_t>(name.size(), 100));
  while (absl::EndsWith(name, "-")) name.pop_back();
  return name.empty() ? "job" : name;
}

}  // namespace

absl::StatusOr<JobSpec> LoadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides, JobPlaces* places) {
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  return ParseJobText(text, path, overrides, places);
}

absl::StatusOr<JobSpec> ParseJobText(absl::string_view text, const std::string& path,
                                     const std::vector<std::string>& overrides, JobPlaces* places) {
  JobSpec spec;
  spec.name = NameAfter(fs::path(path).stem().string());
  JobReader reader(path, spec);
  RUBATO_RETURN_IF_ERROR(reader.ReadText(text));
  for (const std::string& set : overrides) RUBATO_RETURN_IF_ERROR(reader.ReadOverride(set));
  RUBATO_RETURN_IF_ERROR(Locate(reader.ReadAddresses(), reader.places(), path));
  RUBATO_RETURN_IF_ERROR(Locate(spec.Validate(), reader.places(), path));
  if (places != nullptr) *places = reader.places();
  return spec;
}

absl::Status Locate(const absl::Status& status, const JobPlaces& places,
                    absl::string_view otherwise) {
  const absl::string_view message = status.message();
  std::string key(message.substr(0, message.find(':')));
  // A table's rule is judged with what the job says of all, and may have no place of its own.
  const std::string tables = absl::StrCat(kNamedTables, ".");
  while (absl::StartsWith(key, tables) && !places.contains(key)) key.resize(key.rfind('.'));
  const auto place = places.find(key);
  if (place != places.end()) return Annotate(status, place->second);
  return otherwise.empty() ? status : Annotate(status, otherwise);
}

std::string FormatJobText(const JobSpec& spec) {
  JobSpec copy = spec;
  std::string text, section;
  for (const JobKey& key : JobKeys()) {
    const size_t dot = key.name.find('.');
    const std::string parent = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (parent != section && !parent.empty()) absl::StrAppend(&text, parent, ":\n");
    section = parent;
    const std::string name = parent.empty() ? key.name : "  " + key.name.substr(dot + 1);
    absl::StrAppend(&text, name, ": ", WriteJobValue(key.field(copy)), "\n");
  }
  return text;
}

absl::Status WriteJobFile(const std::string& path, const JobSpec& spec) {
  return WriteFileAtomically(path, FormatJobText(spec));
}

}  // namespace rubato
