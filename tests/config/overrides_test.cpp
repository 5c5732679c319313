// Changes of a document from the command line, and the files that it includes: what becomes of the
// document, and what is said of changes that cannot be made.
#include "config/reader/overrides.h"

#include <fmt/format.h>

#include <map>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

std::string changed(std::string_view document, const std::string& change) {
  Value value = read_config_document(document, "f");
  apply_override(value, change);
  return to_compact_json(value);
}

std::string refusal_of(std::string_view document, const std::string& change) {
  Value value = read_config_document(document, "f");
  try {
    apply_override(value, change);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "done";
}

// A folder of configuration files in memory. Paths are joined as a file system would join them.
class Files {
 public:
  std::map<std::string, std::string> texts;
  std::vector<std::string> asked;

  std::string merged(const std::string& name) {
    Value document = read_config_document(texts.at(name), name);
    const size_t slash = name.rfind('/');
    merge_includes(document, name, slash == std::string::npos ? "" : name.substr(0, slash + 1),
                   [this](const std::string& path, const std::string& directory) {
                     return read(path, directory);
                   });
    return to_compact_json(document);
  }

 private:
  IncludedFile read(const std::string& path, const std::string& directory) {
    const std::string whole = directory + path;
    asked.push_back(whole);
    if (!texts.contains(whole)) throw ConfigError("no file " + whole);
    return {read_config_document(texts.at(whole), whole), whole,
            whole.substr(0, whole.rfind('/') + 1)};
  }
};

}  // namespace

TEST_CASE("an assignment replaces or adds, and makes the objects on the way", "[config]") {
  CHECK(changed("{a: 1}", "a=2") == R"({"a":2})");
  CHECK(changed("{a: 1}", "b=2") == R"({"a":1,"b":2})");
  CHECK(changed("{}", "a.b.c=2") == R"({"a":{"b":{"c":2}}})");
  CHECK(changed("{a: {b: 1, c: 2}}", "a.b=3") == R"({"a":{"b":3,"c":2}})");
  CHECK(changed("{a: null}", "a.b=3") == R"({"a":{"b":3}})");
  CHECK(changed("{a: {b: 1}}", "a=5") == R"({"a":5})");
  CHECK(changed("{a: [1, 2]}", "a=[3]") == R"({"a":[3]})");
}

TEST_CASE("the value of an assignment is JSON or a word", "[config]") {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"a=", R"({"a":""})"},
      {"a=null", R"({"a":null})"},
      {"a=true", R"({"a":true})"},
      {"a=1e3", R"({"a":1000.0})"},
      {"a=two words", R"({"a":"two words"})"},
      {"a='1'", R"({"a":"1"})"},
      {"a=[x.txt]", nullptr},
      {"a=[\"x.txt\"]", R"({"a":["x.txt"]})"},
      {"a={b: {c: 1}}", R"({"a":{"b":{"c":1}}})"},
      {"a=b=c", R"({"a":"b=c"})"},
      {"a=/x,y", R"({"a":"/x,y"})"},
      {"a=+x", R"({"a":"+x"})"},
      {"a=~x", R"({"a":"~x"})"}};
  for (const auto& [change, expected] : cases) {
    CAPTURE(change);
    if (expected == nullptr) {
      CHECK_THAT(refusal_of("{}", change), Catch::Contains("has no closing ]"));
    } else {
      CHECK(changed("{}", change) == expected);
    }
  }
}

TEST_CASE("a plus appends to lists, adds what is missing and replaces nothing", "[config]") {
  CHECK(changed("{a: [1]}", "+a=2") == R"({"a":[1,2]})");
  CHECK(changed("{a: [1]}", "+a=[2, 3]") == R"({"a":[1,2,3]})");
  CHECK(changed("{a: [1]}", "+a=[[2]]") == R"({"a":[1,[2]]})");
  CHECK(changed("{a: [1]}", "+a=null") == R"({"a":[1,null]})");
  CHECK(changed("{}", "+a.b=x") == R"({"a":{"b":"x"}})");
  CHECK(changed("{}", "+a=[1]") == R"({"a":[1]})");
  CHECK(refusal_of("{a: 1}", "+a=2") ==
        "override \"+a=2\": a is already given at f:1:5; leave out the + to replace it");
  CHECK(refusal_of("{a: {b: null}}", "+a.b=2") ==
        "override \"+a.b=2\": b is already given at f:1:9; leave out the + to replace it");
}

TEST_CASE("a tilde removes what is there", "[config]") {
  CHECK(changed("{a: 1, b: 2}", "~a") == R"({"b":2})");
  CHECK(changed("{a: {b: 1, c: 2}}", "~a.b") == R"({"a":{"c":2}})");
  CHECK(changed("{a: {b: 1}}", "~a.b") == R"({"a":{}})");
  for (const char* change : {"~b", "~a.c", "~b.c", "~a.b.c.d"}) {
    CAPTURE(change);
    CHECK(refusal_of("{a: {b: null}}", change) ==
          fmt::format("override \"{}\": nothing to remove, the key is not given", change));
  }
  CHECK(changed("{\"a=b\": 1}", "~a=b") == "{}");
}

TEST_CASE("a change that is none is refused with its text", "[config]") {
  CHECK(refusal_of("{}", "a") == "override \"a\": expected key=value, +key=value or ~key");
  CHECK(refusal_of("{}", "") == "override \"\": expected key=value, +key=value or ~key");
  CHECK(refusal_of("{}", "=1") == "override \"=1\": \"\" is no key path, expected a.b.c");
  CHECK(refusal_of("{}", "a..b=1") ==
        "override \"a..b=1\": \"a..b\" is no key path, expected a.b.c");
  CHECK(refusal_of("{}", ".a=1") == "override \".a=1\": \".a\" is no key path, expected a.b.c");
  CHECK(refusal_of("{}", "~") == "override \"~\": \"\" is no key path, expected a.b.c");
  CHECK(refusal_of("{}", "~a.") == "override \"~a.\": \"a.\" is no key path, expected a.b.c");
  CHECK(refusal_of("{}", "+=1") == "override \"+=1\": \"\" is no key path, expected a.b.c");
  CHECK(refusal_of("{a: 5}", "a.b=1") == "override \"a.b=1\": a is an integer, not an object");
  CHECK(refusal_of("{a: {b: [1]}}", "+a.b.c=1") ==
        "override \"+a.b.c=1\": b is a list, not an object");
  CHECK(refusal_of("{a: x\n}", "~a.b") == "override \"~a.b\": a is a string, not an object");
}

TEST_CASE("a path of more keys than documents nest is refused before it is built", "[config]") {
  std::string path = "a";
  for (int i = 1; i < kMaxDepth; ++i) path += ".a";
  CHECK_FALSE(refusal_of("{}", path + "=1") != "done");
  CHECK_THAT(refusal_of("{}", path + ".a=1"), Catch::Contains("is no key path"));
}

TEST_CASE("what was changed names the command line as its origin", "[config]") {
  Value document = read_config_document("{a: {b: 1}}", "f");
  apply_override(document, "a.c=2");
  apply_override(document, "d.e=3");
  CHECK(document.find("a")->find("b")->origin().text() == "f:1:9");
  CHECK(document.find("a")->find("c")->origin().text() == "command line: a.c=2");
  CHECK(document.find("d")->origin().text() == "command line: d.e=3");
  CHECK(document.find("d")->find("e")->origin().text() == "command line: d.e=3");
}

TEST_CASE("a refused change leaves the rest of a document as it was", "[config]") {
  Value document = read_config_document("{a: 1, b: [2]}", "f");
  for (const char* change : {"+a=2", "~c", "a.b=1", "b.c=1", "x", "a=[1"}) {
    CHECK_THROWS_AS(apply_override(document, change), ConfigError);
  }
  CHECK(to_compact_json(document) == R"({"a":1,"b":[2]})");
}

TEST_CASE("a document without includes is left alone", "[config]") {
  Files files{.texts = {{"f", "{a: 1, b: {include: [x]\n}}"}}, .asked = {}};
  CHECK_THROWS_AS(files.merged("f"), ConfigError);  // the quoteless text swallows the bracket
  files.texts["f"] = "{a: 1, b: {include: \"x\"}}";
  CHECK(files.merged("f") == R"({"a":1,"b":{"include":"x"}})");
  CHECK(files.asked.empty());
}

TEST_CASE("later files win over earlier ones, and the document over all", "[config]") {
  Files files;
  files.texts = {{"f", R"({"include": ["one", "two"], "c": 3})"},
                 {"one", R"({"a": 1, "b": 1, "c": 1})"},
                 {"two", R"({"b": 2, "c": 2, "d": 2})"}};
  CHECK(files.merged("f") == R"({"a":1,"b":2,"c":3,"d":2})");
  CHECK(files.asked == std::vector<std::string>{"one", "two"});
}

TEST_CASE("objects are merged, everything else is replaced, and null removes", "[config]") {
  Files files;
  files.texts = {{"f", R"({"include": "base", "o": {"y": null, "z": {"b": 2}}, "l": [3],
                            "gone": null, "was": {"x": 1}, "never": null})"},
                 {"base", R"({"o": {"x": 1, "y": 2, "z": {"a": 1}}, "l": [1, 2], "gone": 7,
                            "was": 5})"}};
  CHECK(files.merged("f") == R"({"o":{"x":1,"z":{"a":1,"b":2}},"l":[3],"was":{"x":1}})");
}

TEST_CASE("included files include others, found from their own folder", "[config]") {
  Files files;
  files.texts = {{"jobs/f", R"({"include": "../base/all", "a": 1})"},
                 {"jobs/../base/all", R"({"include": ["part"], "b": 2})"},
                 {"jobs/../base/part", R"({"a": 3, "b": 3, "c": 3})"}};
  CHECK(files.merged("jobs/f") == R"({"a":1,"b":2,"c":3})");
  CHECK(files.asked == std::vector<std::string>{"jobs/../base/all", "jobs/../base/part"});
}

TEST_CASE("the same file twice is no cycle, itself over any number of files is", "[config]") {
  Files files;
  files.texts = {{"f", R"({"include": ["left", "right"]})"},
                 {"left", R"({"include": "common", "l": 1})"},
                 {"right", R"({"include": "common", "r": 1})"},
                 {"common", R"({"c": 1})"}};
  CHECK(files.merged("f") == R"({"c":1,"l":1,"r":1})");
  files.texts["common"] = R"({"include": "f"})";
  CHECK_THROWS_WITH(files.merged("f"), "common:1:13: include: f includes itself");
  files.texts["f"] = R"({"include": "f"})";
  CHECK_THROWS_WITH(files.merged("f"), "f:1:13: include: f includes itself");
}

TEST_CASE("at most 32 files are included", "[config]") {
  const auto with = [](int count) {
    Files files;
    std::string list;
    for (int i = 0; i < count; ++i) {
      list += fmt::format("\"{}\",", i);
      files.texts[std::to_string(i)] = fmt::format("{{\"k{}\": 1}}", i);
    }
    files.texts["f"] = "{\"include\": [" + list + "]}";
    return files;
  };
  Files most = with(32);
  CHECK_THAT(most.merged("f"), Catch::Contains("\"k31\""));
  CHECK_THROWS_WITH(with(33).merged("f"), "f:1:13: include: more than 32 files");
  // A chain counts as a row does.
  Files chain;
  for (int i = 0; i < 34; ++i) {
    chain.texts[std::to_string(i)] = fmt::format("{{\"include\": \"{}\"}}", i + 1);
  }
  CHECK_THROWS_WITH(chain.merged("0"), "32:1:13: include: more than 32 files");
}

TEST_CASE("an include that is no path is refused at its position", "[config]") {
  Files files;
  files.texts = {{"f", "{\"a\": 1,\n \"include\": 5}"}};
  CHECK_THROWS_WITH(files.merged("f"),
                    "f:2:13: include: got 5, expected a path or a list of paths");
  files.texts["f"] = "{\"include\": [\"x\", {\"a\": 1}]}";
  CHECK_THROWS_WITH(files.merged("f"),
                    "f:1:19: include: got {\"a\":1}, expected a path or a list of paths");
  CHECK(files.asked.empty());
  files.texts["f"] = R"({"include": [], "a": 1})";
  CHECK(files.merged("f") == R"({"a":1})");
}

TEST_CASE("values of an included file keep the place where they stand there", "[config]") {
  Value document = read_config_document("{include: 'base', b: {y: 2}}", "f");
  merge_includes(document, "f", "", [](const std::string&, const std::string&) {
    return IncludedFile{read_config_document("{a: 1,\n b: {x: 1}}", "base"), "base", ""};
  });
  CHECK(document.find("a")->origin().text() == "base:1:5");
  CHECK(document.find("b")->find("x")->origin().text() == "base:2:9");
  CHECK(document.find("b")->find("y")->origin().text() == "f:1:26");
}

}  // namespace ds
