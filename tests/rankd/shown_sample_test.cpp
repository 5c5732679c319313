// What `dslaunch look-at-data` shows of samples.
#include "rankd/verbs/data/shown_sample.h"

#include "data/supervised/supervised_samples.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

const ByteTokenizer kBytes;

SampleSet supervised(const std::string& lines, const SupervisedForm& form) {
  MemoryFileSystem files;
  files.write_text_atomically("/a.jsonl", lines);
  const std::vector<std::string> paths{"/a.jsonl"};
  const auto reader = prompt_examples(kBytes, {});
  return {{open_supervised(files, paths, *reader, form)},
          numbers_of_supervised(form.length.tokens),
          INT32_MAX};
}

const std::string kTwo = R"({"prompt": "ab", "completion": "cd"})"
                         "\n"
                         R"({"prompt": "e", "completion": "f\u00e9"})"
                         "\n";

TEST_CASE("what is learnt of an example is shown in brackets", "[rankd]") {
  const SampleSet set = supervised(kTwo, {.length = 8});
  const SampleRules rules{.is_supervised = true};
  CHECK(page_of(shown_sample(set, rules, 0), &kBytes) ==
        "sample 0, /a.jsonl:1: 4 tokens, 2 of them learnt\nab\u27e6cd\u27e7\n");
  CHECK(page_of(shown_sample(set, rules, 1), &kBytes) ==
        "sample 1, /a.jsonl:2: 4 tokens, 3 of them learnt\ne\u27e6f\u00e9\u27e7\n");
  CHECK(page_of(shown_sample(set, rules, 0), nullptr).find("97 98 \u27e699 100 \u27e7") !=
        std::string::npos);
}

TEST_CASE("packed examples are shown apart", "[rankd]") {
  const SampleSet set = supervised(kTwo, {.length = 9, .packing_window = 2});
  const ShownSample sample = shown_sample(set, {.is_supervised = true}, 0);
  CHECK(sample.examples == std::vector<int64_t>{0, 4});
  CHECK(page_of(sample, &kBytes) ==
        "sample 0, /a.jsonl:1: 8 tokens of 2 examples, 5 of them learnt\n"
        "ab\u27e6cd\u27e7\ne\u27e6f\u00e9\u27e7\n");
  CHECK(to_compact_json(json_of(sample, &kBytes)) ==
        R"({"sample":0,"place":"/a.jsonl:1","ids":[97,98,99,100,101,102,195,169],)"
        R"("learnt":[0,0,1,1,0,1,1,1],"examples":[0,4],"pieces":[{"text":"ab","learnt":false},)"
        R"({"text":"cd","learnt":true},{"text":"e","learnt":false},)"
        R"({"text":"fé","learnt":true}]})");
}

TEST_CASE("of a text all is learnt but what its documents rule out", "[rankd]") {
  MemoryFileSystem files;
  files.write_text_atomically("/a.txt", "ab.cd");
  const std::vector<std::string> paths{"/a.txt"};
  const SampleSet set(open_token_sources(files, paths, kBytes), 4, 256);
  const ShownSample whole = shown_sample(set, {}, 0);
  CHECK(whole.learnt == std::vector<uint8_t>{0, 1, 1, 1, 1});
  CHECK(whole.examples == std::vector<int64_t>{0});
  const ShownSample apart = shown_sample(set, {.documents = {.end = '.', .masks_loss = true}}, 0);
  CHECK(apart.learnt == std::vector<uint8_t>{0, 1, 1, 0, 1});
  CHECK(apart.examples == std::vector<int64_t>{0, 3});
}

}  // namespace
}  // namespace ds
