#include "rubato/adapters/sql/array_text.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(ArrayTextTest, ArraysAreListsInJson) {
  const struct {
    const char *array, *json;
  } cases[] = {
      {"{}", "[]"},
      {"{drama}", R"(["drama"])"},
      {"{drama,war}", R"(["drama", "war"])"},
      {"{6,-41,1.5,2e+10}", R"([6, -41, 1.5, "2e+10"])"},
      {R"({"film noir","a,b","{}","",NULL,"NULL"})",
       R"(["film noir", "a,b", "{}", "", null, "NULL"])"},
      {R"({"say \"hi\"","C:\\d"})", R"(["say \"hi\"", "C:\\d"])"},
      {"{\"a\nb\"}", R"(["a\u000ab"])"},
      {"{{1,2},{3,4}}", "[[1, 2], [3, 4]]"},
      {"{2026-11-18,t}", R"(["2026-11-18", "t"])"},
      {"{K\xc3\xb6ln}", "[\"K\xc3\xb6ln\"]"},
      {"[0:1]={a,b}", "[0:1]={a,b}"},
      {"", ""},
  };
  for (const auto& [array, json] : cases) EXPECT_EQ(ArrayAsJson(array, false), json) << array;
  EXPECT_EQ(ArrayAsJson("{t,f,NULL}", true), "[1, 0, null]");
}

}  // namespace
}  // namespace rubato
