// Fuzzes training texts: telling formats apart, what is noted of them, decompression, JSON lines,
// records of classes, and sentences of words. The first byte chooses the file's name.
#include <array>

#include "data/labelled_texts.h"
#include "data/tagged_words.h"
#include "data/tokens/dataset.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr std::array kNames = {"/f.txt", "/f.jsonl", "/f.jsonl.gz", "/f.txt.zst",
                                 "/f.csv", "/f.JL",    "/f",          "/dataset_infos.json"};
  const std::string name = kNames[data[0] % kNames.size()];
  ds::MemoryFileSystem fs;
  ds::fuzz::put(fs, name, ds::fuzz::bytes_of(data, size).subspan(1));
  ds::fuzz::expect_refusal_or_success([&] {
    const std::vector<std::string> paths = {name};
    ds::look_at_token_sources(fs, paths, {}, [](const ds::Error&) {});
    const ds::SampleSet set(ds::open_token_sources(fs, paths, ds::ByteTokenizer()), 4, 256);
    set.check(1 << 20);
  });
  for (const char* const labelled : {"/g.csv", "/g.tsv", "/g.jsonl"}) {
    ds::fuzz::put(fs, labelled, ds::fuzz::bytes_of(data, size).subspan(1));
    ds::fuzz::expect_refusal_or_success([&] {
      const std::vector<std::string> paths = {labelled};
      for (const auto problem :
           {ds::ClassifierProblem::kOneClass, ds::ClassifierProblem::kSeveralClasses}) {
        const ds::LabelledForm form{.text = "t",
                                    .label = "l",
                                    .text_pair = "p",
                                    .labels = {.problem = problem, .names = {"a", "b"}},
                                    .length = 4};
        const ds::SampleSet set({ds::open_labelled_texts(fs, paths, ds::ByteTokenizer(), form)},
                                ds::numbers_of_labelled(form.length.tokens, form.labels.values()),
                                1 << 16);
        set.check(1 << 20);
      }
    });
  }
  for (const char* const tagged : {"/h.conll", "/h.jsonl"}) {
    ds::fuzz::put(fs, tagged, ds::fuzz::bytes_of(data, size).subspan(1));
    ds::fuzz::expect_refusal_or_success([&] {
      const std::vector<std::string> paths = {tagged};
      const ds::TaggedForm form{
          .fields = {.words = "t", .tags = "l"}, .labels = {"a", "b"}, .length = 4};
      const ds::SampleSet set({ds::open_tagged_words(fs, paths, ds::ByteTokenizer(), form)},
                              ds::numbers_of_tagged(form.length.tokens), 256);
      set.check(1 << 20);
    });
  }
  return 0;
}
