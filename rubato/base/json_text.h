// A JSON document as text, whatever bytes its strings hold.
//
// Names of files, jobs and columns are the user's: where they are not UTF-8, replacement characters
// stand for them, so that what is printed is always JSON; dump() by itself throws. A template, so
// that the library's header stays where it is used.
#ifndef RUBATO_BASE_JSON_TEXT_H_
#define RUBATO_BASE_JSON_TEXT_H_

#include <string>

namespace rubato {

// In one line, or with `indent` blanks a level.
template <typename Json>
std::string JsonText(const Json& document, int indent = -1) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rubato

#endif  // RUBATO_BASE_JSON_TEXT_H_
