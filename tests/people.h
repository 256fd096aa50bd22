// A small table to learn from, with what real tables have.
#ifndef RUBATO_TESTS_PEOPLE_H_
#define RUBATO_TESTS_PEOPLE_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace rubato {

// People of whom the older ones in the south are rich, but for some; with quotes, blanks, missing
// ages written as `missing`, and a number nobody needs.
inline std::string PeopleCsv(int rows, int start, const std::string& missing = "?") {
  std::string csv = "age,town,serial,income\n";
  for (int i = start; i < start + rows; ++i) {
    const int age = 18 + i * 7 % 60;
    const bool south = i * 13 % 5 < 2, odd = i * 31 % 10 == 0;
    absl::StrAppend(&csv, i % 17 == 0 ? missing : absl::StrCat(age), ",",
                    south ? "\"Rome, Italy\"" : " Oslo", ",s", i, ",",
                    (age > 45 && south) != odd ? ">50K" : "<=50K", "\n");
  }
  return csv;
}

}  // namespace rubato

#endif  // RUBATO_TESTS_PEOPLE_H_
