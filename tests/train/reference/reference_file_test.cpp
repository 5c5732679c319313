// The answers of a reference in a file, and about which samples it is asked.
#include "train/reference/reference_file.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "train/reference/run_reference.h"

namespace ds {
namespace {

RunReferences asked() {
  RunReferences out{.train = ReferenceScores(3), .validation = ReferenceScores(1)};
  out.train.set(0, {-1.5, -2.25});
  out.train.set(2, {1e-9, 0});  // rounding may leave more than 0
  out.validation.set(0, {-7, -8});
  return out;
}
RunReferences unasked(int64_t train = 3) {
  return {.train = ReferenceScores(train), .validation = ReferenceScores(1)};
}

TEST_CASE("answers of a reference are read as they were written", "[train]") {
  MemoryFileSystem files;
  files.make_directories("/run");
  write_references(files, "/run/reference.bin", "facts", asked());
  RunReferences got = unasked();
  CHECK(read_references(files, "/run/reference.bin", "facts", got).empty());
  CHECK(got.train.of(0) == ReferenceScores::Pair{-1.5, -2.25});
  CHECK_FALSE(got.train.knows(1));
  CHECK(got.train.of(2) == ReferenceScores::Pair{1e-9, 0});
  CHECK(got.validation.of(0) == ReferenceScores::Pair{-7, -8});
  CHECK_THROWS_AS(got.train.of(1), InternalError);
}

TEST_CASE("other answers than the run's are not taken", "[train]") {
  MemoryFileSystem files;
  files.make_directories("/run");
  const std::string path = "/run/reference.bin";
  RunReferences got = unasked();
  const auto why = [&](const std::string& facts, RunReferences& into) {
    return read_references(files, path, facts, into);
  };
  CHECK_THAT(why("facts", got), Catch::Contains(path));
  write_references(files, path, "facts", asked());
  const std::string whole = files.read_text(path, 1 << 10);
  CHECK_THAT(why("others", got), Catch::EndsWith("it is of another run, or is damaged"));
  RunReferences more = unasked(4), fewer = unasked(2);
  CHECK_FALSE(why("facts", more).empty());
  CHECK_FALSE(why("facts", fewer).empty());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    files.write_text_atomically(path, damaged);
    CHECK_FALSE(why("facts", got).empty());
    files.write_text_atomically(path, whole.substr(0, at));
    CHECK_FALSE(why("facts", got).empty());
  }
  CHECK_FALSE(got.train.knows(0));
}

TEST_CASE("a reference is asked about the samples of the steps to come, each once", "[train]") {
  const Sampler in_order(5, SampleOrder::kSequential, 0);
  using Samples = std::vector<int64_t>;
  CHECK(samples_of_steps(in_order, 2, 0, 2, 5) == Samples{0, 1, 2, 3});
  CHECK(samples_of_steps(in_order, 2, 2, 3, 5) == Samples{0, 4});
  CHECK(samples_of_steps(in_order, 2, 0, 1'000'000'000, 5) == Samples{0, 1, 2, 3, 4});
  CHECK(samples_of_steps(in_order, 2, 3, 3, 5).empty());
  // Epochs that leave some out; nobody looks through all of them.
  const Sampler some(5, SampleOrder::kSequential, 0, 4);
  CHECK(samples_of_steps(some, 2, 1, 3, 5) == Samples{0, 1, 2, 3});
  CHECK(samples_of_steps(some, 2, 0, INT64_MAX / 4, 5) == Samples{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace ds
