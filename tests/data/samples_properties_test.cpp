// Samples, batches and files against plain loops, over many generated shapes: what a sample holds,
// which rank sees it, which samples share a token-bound batch, and which files a pattern names.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/status/error.h"
#include "data/data_loader.h"
#include "data/efficiency/token_batches.h"
#include "data/text/path_pattern.h"
#include "data/tokens/dataset.h"
#include "data/tokens/token_parts.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using ds::test::Draws;

namespace {

using Tokens = std::vector<int32_t>;

std::shared_ptr<const TokenSource> source_of(const Tokens& tokens, const std::string& path = "f") {
  return std::make_shared<TokenList<int32_t>>(path, tokens);
}

// Sources of random lengths; the tokens count on over all of them.
std::vector<Tokens> random_sources(Draws& draws) {
  std::vector<Tokens> sources;
  int32_t next = 0;
  for (int64_t i = draws.pick(1, 4); i > 0; --i) {
    Tokens& tokens = sources.emplace_back(static_cast<size_t>(draws.pick(0, 40)));
    std::iota(tokens.begin(), tokens.end(), next);
    next += static_cast<int32_t>(tokens.size());
  }
  return sources;
}

std::vector<Tokens> samples_plainly(const std::vector<Tokens>& sources, int64_t length) {
  std::vector<Tokens> samples;
  for (const Tokens& source : sources) {
    for (int64_t begin = 0; begin + length < std::ssize(source); begin += length) {
      samples.emplace_back(source.begin() + begin, source.begin() + begin + length + 1);
    }
  }
  return samples;
}

std::vector<Tokens> all_of(const SampleSet& set) {
  std::vector<Tokens> samples;
  for (int64_t i = 0; i < set.size(); ++i) {
    samples.emplace_back(static_cast<size_t>(set.sequence_length()) + 1);
    set.read(i, samples.back());
  }
  return samples;
}

SampleSet set_of(const std::vector<Tokens>& sources, int64_t length) {
  std::vector<std::shared_ptr<const TokenSource>> list;
  for (const Tokens& tokens : sources) list.push_back(source_of(tokens));
  return {std::move(list), length, 1 << 20};
}

}  // namespace

TEST_CASE("samples are cut from each source by itself, overlapping by one token", "[data]") {
  int sets = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    const std::vector<Tokens> sources = random_sources(draws);
    const int64_t length = draws.pick(1, 9);
    const std::vector<Tokens> expected = samples_plainly(sources, length);
    CAPTURE(seed, length);
    if (expected.empty()) {
      CHECK_THROWS_AS(set_of(sources, length), DataError);
      continue;
    }
    REQUIRE(all_of(set_of(sources, length)) == expected);
    ++sets;
  }
  CHECK(sets > 200);
}

TEST_CASE("a split takes every sample once, the last ones for validation", "[data]") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Draws draws(seed);
    const std::vector<Tokens> sources = random_sources(draws);
    const int64_t length = draws.pick(1, 4);
    const std::vector<Tokens> whole = samples_plainly(sources, length);
    if (whole.size() < 2) continue;
    const double fraction = static_cast<double>(draws.pick(1, 99)) / 100;
    const auto [train, held] = set_of(sources, length).split(fraction);
    const auto wanted =
        std::min(static_cast<int64_t>(std::ceil(fraction * static_cast<double>(whole.size()))),
                 std::ssize(whole) - 1);
    CAPTURE(seed, fraction, whole.size());
    CHECK(held.size() == wanted);
    std::vector<Tokens> joined = all_of(train);
    for (const Tokens& sample : all_of(held)) joined.push_back(sample);
    CHECK(joined == whole);
  }
}

TEST_CASE("in a mixture every sample comes, and groups in proportion to their weights", "[data]") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Draws draws(seed);
    std::vector<WeightedSources> groups;
    std::vector<std::pair<int64_t, double>> counts;  // samples of each group, weight
    int32_t first = 0;
    for (int64_t i = draws.pick(1, 4); i > 0; --i) {
      Tokens tokens(static_cast<size_t>(draws.pick(3, 60)));
      std::iota(tokens.begin(), tokens.end(), first);
      first += 1000;
      const double weight = static_cast<double>(draws.pick(1, 20)) / 4;
      counts.emplace_back((std::ssize(tokens) - 1) / 2, weight);
      groups.push_back({{source_of(tokens)}, weight});
    }
    const SampleSet set(std::move(groups), 2, 1 << 20);
    std::map<int64_t, std::map<int32_t, int64_t>> seen;  // group -> first token -> times
    for (const Tokens& sample : all_of(set)) ++seen[sample[0] / 1000][sample[0]];
    CAPTURE(seed);
    double most = 0;
    for (const auto& [count, weight] : counts) {
      most = std::max(most, static_cast<double>(count) / weight);
    }
    for (size_t group = 0; group < counts.size(); ++group) {
      const auto& times = seen[static_cast<int64_t>(group)];
      int64_t total = 0, least = INT64_MAX, largest = 0;
      for (const auto& [token, n] : times) {
        total += n;
        least = std::min(least, n);
        largest = std::max(largest, n);
      }
      CHECK(std::ssize(times) == counts[group].first);
      CHECK(std::abs(static_cast<double>(total) - counts[group].second * most) <= 0.5);
      CHECK(largest - least <= 1);  // it goes round
    }
  }
}

TEST_CASE("a bad token is named with its source and place", "[data]") {
  for (const int32_t bad : {-1, 100, INT32_MAX}) {
    Tokens tokens(20, 5);
    tokens[13] = bad;
    const SampleSet set({source_of({1, 2, 3}, "a"), source_of(tokens, "b")}, 2, 100);
    CAPTURE(bad);
    CHECK_NOTHROW(set.check(8));
    CHECK_THROWS_WITH(set.check(1000),
                      Catch::Contains(fmt::format("b at token 13: token id {} is outside the "
                                                  "vocabulary of 100",
                                                  static_cast<uint32_t>(bad))));
  }
}

TEST_CASE("all ranks together see a step's samples in order, inputs beside targets", "[data]") {
  Tokens tokens(400);
  std::iota(tokens.begin(), tokens.end(), 0);
  const SampleSet set = set_of({tokens}, 3);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Draws draws(seed);
    const BatchShape shape{draws.pick(1, 4), draws.pick(1, 3), draws.pick(1, 4)};
    const Sampler sampler(set.size(), SampleOrder::kShuffled, seed);
    const int64_t step = draws.pick(0, 50);
    std::vector<int64_t> seen;
    for (int64_t micro = 0; micro < shape.accumulation; ++micro) {
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        const Batch batch = DataLoader(set, sampler, shape, rank).next(step, micro);
        REQUIRE(std::ssize(batch.samples) == shape.micro_batch);
        for (size_t row = 0; row < batch.samples.size(); ++row) {
          Tokens sample(4);
          set.read(batch.samples[row], sample);
          const int32_t* inputs = batch.tokens.data<int32_t>() + 3 * row;
          const int32_t* targets = batch.targets.data<int32_t>() + 3 * row;
          REQUIRE(Tokens(inputs, inputs + 3) == Tokens(sample.begin(), sample.end() - 1));
          REQUIRE(Tokens(targets, targets + 3) == Tokens(sample.begin() + 1, sample.end()));
          seen.push_back(batch.samples[row]);
        }
      }
    }
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < shape.global_batch(); ++i) {
      expected.push_back(sampler.sample_at(step * shape.global_batch() + i));
    }
    CAPTURE(seed, step);
    CHECK(seen == expected);
  }
}

TEST_CASE("a loader refuses places that there are not", "[data]") {
  const SampleSet set = set_of({Tokens(20, 1)}, 3);
  const Sampler sampler(set.size(), SampleOrder::kSequential, 0);
  CHECK_THROWS_AS(DataLoader(set, sampler, {1, 1, 2}, 2), InternalError);
  CHECK_THROWS_AS(DataLoader(set, sampler, {1, 1, 2}, -1), InternalError);
  CHECK_THROWS_AS(DataLoader(set, sampler, {0, 1, 1}, 0), InternalError);
  const DataLoader loader(set, sampler, {1, 2, 1}, 0);
  CHECK_THROWS_AS(loader.next(-1, 0), InternalError);
  CHECK_THROWS_AS(loader.next(0, 2), InternalError);
  CHECK_NOTHROW(loader.next(0, 1));
}

TEST_CASE("token-bound batches keep every bound and use samples in order, each once", "[data]") {
  int made = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    std::vector<int64_t> lengths(static_cast<size_t>(draws.pick(1, 60)));
    for (int64_t& length : lengths) length = draws.pick(1, 30);
    TokenBatchOptions options;
    options.max_tokens = draws.pick(5, 80);
    options.min_batch_size = draws.pick(1, 3);
    if (draws.pick(0, 1) == 1) options.max_batch_size = draws.pick(3, 8);
    options.micro_batches_per_batch = draws.pick(1, 3);
    options.sizes = draws.pick(0, 1) == 1 ? MicroBatchSizes::kEqual : MicroBatchSizes::kFree;
    options.order = draws.pick(0, 1) == 1 ? PackingOrder::kByLength : PackingOrder::kGiven;
    std::vector<TokenBatch> batches;
    try {
      batches = token_batches(lengths, options);
    } catch (const ConfigError&) {
      continue;
    }
    ++made;
    CAPTURE(seed, options.max_tokens, options.min_batch_size, options.micro_batches_per_batch);
    std::set<int64_t> used;
    for (const TokenBatch& batch : batches) {
      CHECK(std::ssize(batch.micro_batches) == options.micro_batches_per_batch);
      int64_t samples = 0, longest = 0;
      std::set<size_t> sizes;
      for (const auto& micro : batch.micro_batches) {
        int64_t tokens = 0;
        for (const int64_t sample : micro) {
          CHECK(used.insert(sample).second);
          tokens += lengths.at(static_cast<size_t>(sample));
          longest = std::max(longest, lengths.at(static_cast<size_t>(sample)));
        }
        CHECK(tokens <= options.max_tokens);
        CHECK(std::ssize(micro) >= options.min_batch_size);
        CHECK(std::ssize(micro) <= options.max_batch_size.value_or(INT64_MAX));
        sizes.insert(micro.size());
        samples += std::ssize(micro);
      }
      CHECK(batch.samples == samples);
      CHECK(batch.longest == longest);
      if (options.sizes == MicroBatchSizes::kEqual) CHECK(sizes.size() == 1);
    }
    if (options.order == PackingOrder::kByLength) {
      CHECK(std::ranges::is_sorted(batches, {}, &TokenBatch::longest));
    }
  }
  CHECK(made > 200);
}

TEST_CASE("options of token-bound batches that cannot be are refused with their numbers",
          "[data]") {
  const std::vector<int64_t> lengths(10, 4);
  CHECK_THROWS_WITH(token_batches(lengths, {.max_tokens = 0}),
                    Catch::Contains("1 micro-batches a batch of at most 0 tokens"));
  CHECK_THROWS_WITH(token_batches(lengths, {.max_tokens = 8, .micro_batches_per_batch = 0}),
                    Catch::Contains("0 micro-batches a batch"));
  CHECK_THROWS_WITH(token_batches(lengths, {.max_tokens = 3}),
                    Catch::Contains("0 samples of at most 3 tokens do not fill one batch"));
  CHECK_THROWS_AS(token_batches({}, {.max_tokens = 3}), ConfigError);
}

namespace {

// Whether a name matches a pattern of * and ?, tried out letter by letter.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches(pattern.substr(1), name) || (!name.empty() && matches(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches(pattern.substr(1), name.substr(1));
}

}  // namespace

TEST_CASE("patterns name the files that letter by letter they match, in order", "[data]") {
  MemoryFileSystem fs;
  std::vector<std::string> names;
  for (const char* folder : {"a", "b", "ab"}) {
    fs.make_directories(std::string("/") + folder);
    for (const char* name : {"a", "b", "aa", "ab", "ba", "abb", "b.a"}) {
      const std::string path = fmt::format("/{}/{}", folder, name);
      fs.create(path)->write(0, std::as_bytes(std::span("x", 1)));
      names.push_back(path);
    }
  }
  std::ranges::sort(names);
  Draws draws(4);
  int found = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto part = [&] {
      std::string out;
      for (int64_t i = draws.pick(1, 3); i > 0; --i) out += "ab?*"[draws.pick(0, 3)];
      return out;
    };
    const std::string folder = part(), file = part();
    const std::string pattern = "/" + folder + "/" + file;
    if (pattern.find_first_of("*?") == std::string::npos) continue;
    if (pattern.find("**") != std::string::npos) {
      CHECK_THROWS_AS(expand_paths(fs, std::vector{pattern}), Unsupported);
      continue;
    }
    std::vector<std::string> expected;
    for (const std::string& name : names) {
      const size_t slash = name.rfind('/');
      if (matches(folder, name.substr(1, slash - 1)) && matches(file, name.substr(slash + 1))) {
        expected.push_back(name);
      }
    }
    CAPTURE(pattern);
    if (expected.empty()) {
      CHECK_THROWS_AS(expand_paths(fs, std::vector{pattern}), InputMissing);
    } else {
      CHECK(expand_paths(fs, std::vector{pattern}) == expected);
      ++found;
    }
  }
  CHECK(found > 50);
}
