// What a text looks like besides, by its name and its first bytes; prose looks like nothing.
#include "data/text/text_signs.h"

#include <fmt/format.h>

#include "data/text/text_kind.h"
#include "tests/support/catch.h"

using namespace ds;
using Signs = std::vector<TextSign>;

namespace {

Signs signs_of(std::string_view path, std::string_view head) {
  Signs out;
  for (const TextFinding& finding : findings_of(path, head)) out.push_back(finding.sign);
  return out;
}

std::string reason_of(std::string_view path, std::string_view head) {
  const std::vector<TextFinding> found = findings_of(path, head);
  return found.empty() ? "" : found.front().reason;
}

constexpr const char* kTable = "id,text\n1,\"a, b\"\n2,\"say \"\"no\"\"\nand go\"\n";

}  // namespace

TEST_CASE("texts, source code and Markdown look like nothing else", "[data]") {
  for (const char* text :
       {"", "\n", "Once upon a time, there was a table.\nIt had legs, four.\nThat, is, all.\n",
        "# Title\n\nSome *text*, with [links](http://x).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "#include <map>\nint main() { return 0; }\n", "a < b\n", "{ braces }\n",
        "[1] A note\n[2] B\n", "Hello, world\nfoo, bar\nbaz, qux\n", "key: value\nother: 1\n",
        "d\xC3\xA9j\xC3\xA0 vu\n", "one\ntwo\nthree\n", "x\r\ny\n"}) {
    CAPTURE(text);
    for (const char* name : {"a.txt", "README.md", "a", "a.txt.gz"})
      CHECK(signs_of(name, text).empty());
  }
}

TEST_CASE("JSON under the name of a text is told by how it is laid out", "[data]") {
  CHECK(signs_of("a.txt", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n") == Signs{TextSign::kJsonLines});
  CHECK(reason_of("a", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n") ==
        "looks like JSON lines: its first 2 lines are objects");
  CHECK(signs_of("a.txt", "[\n {\"text\": \"a\"}\n]") == Signs{TextSign::kJson});
  CHECK(signs_of("a.txt", "{\n \"text\": \"a\"\n}") == Signs{TextSign::kJson});
  const char* notebook = "{\n \"cells\": [{\"cell_type\": \"code\"}],\n \"nbformat\": 4\n}";
  CHECK(signs_of("a.ipynb", notebook) == Signs{TextSign::kNotebook});
  CHECK(signs_of("a.txt", notebook) == Signs{TextSign::kNotebook});
  CHECK(signs_of("a.ipynb", "{\n \"metadata\": {}\n}") == Signs{TextSign::kNotebook});
}

TEST_CASE("a table is told by equal records under names, or by its own name", "[data]") {
  CHECK(signs_of("a.txt", kTable) == Signs{TextSign::kTable});
  CHECK(reason_of("data.csv", kTable) ==
        "looks like a table (CSV): its first line names the columns id, text");
  CHECK_THAT(reason_of("a", "id\ttext\n1\ta b\n2\tc d\n"), Catch::Contains("(TSV)"));
  CHECK_THAT(reason_of("a", "id;text\n1;a, b\n2;c, d\n"), Catch::Contains("(CSV)"));
  CHECK_THAT(reason_of("a", "a,b,c,d,e,f,g,h,i,j\n1,2,3,4,5,6,7,8,9,0\n1,2,3,4,5,6,7,8,9,0\n"),
             Catch::Contains("g, h, ..."));
  CHECK(reason_of("x/A.CSV", "only one column\nand a second line\n") ==
        "is a table (CSV) by its name");
  CHECK(reason_of("a.tsv.gz", "text\nx\n") == "is a table (TSV) by its name");
  for (const char* text :
       {"id,text\n1,a\n2\n", "id,text\n1,a\n", "id,text\n1,\"a\"b\n2,c\n", "1,2\n3,4\n5,6\n",
        "id,\"a b\"\n1,2\n3,4\n", "id,,text\n1,2,3\n4,5,6\n"}) {
    CAPTURE(text);
    CHECK(signs_of("a.txt", text).empty());
  }
  // A record that the end has cut counts neither way.
  CHECK(signs_of("a.txt", std::string(kTable) + "3,\"cut") == Signs{TextSign::kTable});
}

TEST_CASE("markup is told by how it begins", "[data]") {
  for (const char* text : {"<!DOCTYPE HTML>\n<p>", "  <html lang=\"en\">", "<HEAD>", "<body>",
                           "\xEF\xBB\xBF<!doctype html>"}) {
    CHECK(signs_of("a.txt", text) == Signs{TextSign::kHtml});
  }
  CHECK(signs_of("a.htm", "<p>text") == Signs{TextSign::kHtml});
  CHECK(signs_of("a", "<?xml version=\"1.0\"?><a/>") == Signs{TextSign::kXml});
  CHECK(signs_of("a.xml", "<a/>") == Signs{TextSign::kXml});
  CHECK(signs_of("dump", "<mediawiki xmlns=\"\">") == Signs{TextSign::kXml});
  CHECK(signs_of("a.doc", "{\\rtf1 text}") == Signs{TextSign::kRichText});
  CHECK(signs_of("a", "%!PS-Adobe-3.0\n") == Signs{TextSign::kPostScript});
  CHECK(signs_of("a.txt", "<p>text").empty());
}

TEST_CASE("bytes of another encoding are counted, but for a character that the end cuts",
          "[data]") {
  CHECK(signs_of("a.txt", "d\xE9j\xE0 vu, in Latin-1") == Signs{TextSign::kOtherEncoding});
  CHECK_THAT(reason_of("a.txt", "d\xE9j\xE0 vu, in Latin-1"), Catch::Contains("2 of 19 bytes"));
  for (const char* character : {"\xC3\xA9", "\xE6\xBC\xA2", "\xF0\x9F\x98\x80"}) {
    for (size_t shift = 0; shift < 4; ++shift) {
      std::string text(shift, 'a');
      while (text.size() < kHeadBytes) text += character;
      CHECK(signs_of("a.txt", std::string_view(text).substr(0, kHeadBytes)).empty());
      text[100] = '\xFF';
      CHECK(signs_of("a.txt", std::string_view(text).substr(0, kHeadBytes)) ==
            Signs{TextSign::kOtherEncoding});
    }
  }
  CHECK(signs_of("a.txt", "ends in \xE6\xBC") == Signs{TextSign::kOtherEncoding});  // the file does
}

TEST_CASE("lines that all end in CR LF are told, beside what else there is", "[data]") {
  CHECK(signs_of("a.txt", "a\r\nb\r\n") == Signs{TextSign::kCarriageReturns});
  CHECK(signs_of("a.txt", "a\r\nb\n").empty());
  CHECK(signs_of("a.txt", "\na\r\n").empty());
  CHECK(signs_of("a.txt", "a\rb").empty());
  CHECK(signs_of("a.csv", "a,b\r\n1,\xE9\r\n2,3\r\n") ==
        Signs{TextSign::kTable, TextSign::kOtherEncoding, TextSign::kCarriageReturns});
}

TEST_CASE("no more than the beginning is looked at", "[data]") {
  const std::string text = std::string(kHeadBytes, 'a') + "\xFF\r\n";
  CHECK(signs_of("a.txt", text).empty());
}

TEST_CASE("each sign has an advice", "[data]") {
  for (const TextSign sign :
       {TextSign::kJsonLines, TextSign::kJson, TextSign::kNotebook, TextSign::kTable,
        TextSign::kHtml, TextSign::kXml, TextSign::kRichText, TextSign::kPostScript,
        TextSign::kOtherEncoding, TextSign::kCarriageReturns}) {
    CHECK_FALSE(advice_for(sign).empty());
  }
}
