#include "rubato/adapters/sql/sql_uri.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rubato {
namespace {

std::string Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::SimpleHexAtoi(text.substr(i + 1, 2), &value)) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

bool IsSqlUri(absl::string_view text) {
  return absl::StartsWith(text, "sqlite://") || absl::StartsWith(text, "postgresql://") ||
         absl::StartsWith(text, "postgres://");
}

absl::Status CheckSlashes(absl::string_view text) {
  if (IsSqlUri(text)) return absl::OkStatus();
  for (const absl::string_view scheme : {"sqlite:", "postgresql:", "postgres:"}) {
    if (!absl::StartsWith(text, scheme)) continue;
    absl::string_view rest = text.substr(scheme.size());
    // One slash begins an absolute path of SQLite's, and is a slip of the pen before a host.
    if (scheme != "sqlite:") absl::ConsumePrefix(&rest, "/");
    const std::string meant = WithoutPassword(absl::StrCat(scheme, "//", rest));
    const std::string shown =
        absl::StrCat(text.substr(0, text.size() - rest.size()), meant.substr(scheme.size() + 2));
    return absl::InvalidArgumentError(absl::StrCat("'", shown, "': a database is written with two ",
                                                   "slashes, ", meant, " (a file of that name: ./",
                                                   shown, ")"));
  }
  return absl::OkStatus();
}

std::string AbsoluteSqlUri(const std::string& text, const std::string& folder) {
  absl::string_view path = text;
  if (!absl::ConsumePrefix(&path, "sqlite://") || absl::StartsWith(path, "/")) return text;
  return absl::StrCat("sqlite://", folder, "/", path);
}

std::string WithoutPassword(const std::string& text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string::npos) return text;
  const size_t mark = std::min(text.find('?'), text.size());
  std::string shown = text.substr(0, mark);
  const size_t host = std::min(scheme + 3, shown.size());
  const size_t at = shown.find('@', host), colon = shown.find(':', host);
  if (at != std::string::npos && colon < at) shown.erase(colon, at - colon);
  if (mark == text.size()) return shown;
  std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(text).substr(mark + 1), '&');
  std::erase_if(parts, [](absl::string_view p) { return absl::StartsWith(p, "password="); });
  return absl::StrCat(shown, parts.empty() ? "" : "?", absl::StrJoin(parts, "&"));
}

absl::StatusOr<SqlUri> ParseSqlUri(const std::string& text) {
  SqlUri uri;
  absl::string_view rest = text;
  uri.sqlite = absl::ConsumePrefix(&rest, "sqlite://");
  if (!IsSqlUri(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        WithoutPassword(text),
        ": begins neither with sqlite:// nor with postgresql://, as format: sql needs"));
  }
  const size_t mark = rest.find('?');
  uri.connect = std::string((uri.sqlite ? rest : absl::string_view(text)).substr(0, mark));
  std::string others;
  if (mark != absl::string_view::npos) {
    for (const absl::string_view part : absl::StrSplit(rest.substr(mark + 1), '&')) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(part, absl::MaxSplits('=', 1));
      std::string* field = pair.first == "table"   ? &uri.table
                           : pair.first == "query" ? &uri.query
                           : pair.first == "key"   ? &uri.key
                                                   : nullptr;
      if (field != nullptr) {
        *field = Unescape(pair.second);
      } else {
        absl::StrAppend(&others, others.empty() ? "?" : "&", part);
      }
    }
  }
  if (!uri.sqlite) absl::StrAppend(&uri.connect, others);
  if (uri.table.empty() == uri.query.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(WithoutPassword(text),
                     ": name a table, ?table=clicks, or a query, ?query=SELECT ...&key=id"));
  }
  if (!uri.query.empty() && uri.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        WithoutPassword(text),
        ": a query needs &key=COLUMN, integers of which each comes once, to number its rows"));
  }
  return uri;
}

}  // namespace rubato
