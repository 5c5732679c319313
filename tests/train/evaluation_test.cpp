#include "train/evaluate/evaluation.h"

#include <numbers>

#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_engine.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;
using Lines = std::vector<std::string>;

BatchSpec text_batch(int64_t rows) {
  return BatchSpec({{.name = "tokens", .shape = {rows}}, {.name = "targets", .shape = {rows}}});
}

class Squares final : public TokenSource {
 public:
  explicit Squares(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = offset + static_cast<int64_t>(i);
      out[i] = static_cast<int32_t>(at * at % 29);
    }
  }
  std::string locate(int64_t) const override { return "here"; }

 private:
  const int64_t size_;
};

TEST_CASE("evaluations come when they are due, and after the last step", "[train]") {
  const SampleSet samples({std::make_shared<Squares>(16 * 5 + 1)}, 16, 29);
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options_of({.global_batch = 2}), workspace.resources(), std::nullopt);
    engine.initialize();
    HeardReports heard;
    const Evaluation::Options options{.place = {.rank = comm.rank()},
                                      .shape = {.micro_batch = 2, .ranks = 1},
                                      .schedule = {.every = 4, .last_step = 10},
                                      .batches = 9,
                                      .bytes_per_token = 2};
    Evaluation evaluation(engine, heard, samples, options);
    Measured measured;
    evaluation.measure(measured);
    CHECK(measured.results.empty());
    for (const int64_t step : {4, 8, 10}) CHECK(evaluation.due(step));
    for (const int64_t step : {1, 9, 11}) CHECK_FALSE(evaluation.due(step));
    Metrics metrics;
    evaluation.after(3, metrics);
    CHECK(!metrics.has("validation_loss"));
    CHECK(heard.take().empty());
    evaluation.after(4, metrics);
    CHECK(heard.take() == Lines{"evaluate 4.0", "evaluate 4.1", "evaluate 4.2"});
    const double loss = metrics.at("validation_loss");
    CHECK(loss > 0);
    Metrics last;
    evaluation.after(10, last);
    CHECK(last.at("validation_loss") == loss);  // the same batches of the same weights
    evaluation.measure(measured);
    CHECK(measured.results.at("validation_loss") == loss);
    CHECK(measured.results.at("validation_bits_per_byte") == loss / std::numbers::ln2 / 2);
  });
}

TEST_CASE("who watches hears which samples a batch has", "[train]") {
  class Heard final : public StepObserver {
   public:
    void on_samples(int64_t steps_done, int micro_step, std::span<const int64_t> samples) override {
      CHECK(steps_done == 1);
      CHECK(micro_step == 0);
      all.assign(samples.begin(), samples.end());
    }
    std::vector<int64_t> all;
  };
  const SampleSet samples({std::make_shared<Squares>(16 * 8 + 1)}, 16, 29);
  Heard heard;
  LoaderSource source(samples, Sampler(samples.size(), SampleOrder::kSequential, 0),
                      {.micro_batch = 2, .ranks = 2}, {.rank = 1}, {.observer = &heard});
  const MicroBatch batch = host_batch(text_batch(32));
  source.fill(1, 0, batch);
  const std::span<int32_t> tokens = batch.values<int32_t>("tokens");
  const std::span<int32_t> targets = batch.values<int32_t>("targets");
  CHECK(heard.all.empty());
  source.on_use(1, 0);
  CHECK(source.first_sample(0) == 2);
  CHECK(source.first_sample(1) == 6);
  CHECK(heard.all == std::vector<int64_t>{6, 7});
  CHECK(tokens[0] == 6 * 16 * 6 * 16 % 29);
  CHECK(targets[0] == tokens[1]);
}

TEST_CASE("a rank of a ring gets a piece from the front of each sample, and one from its back",
          "[train]") {
  const SampleSet samples({std::make_shared<Squares>(16 * 8 + 1)}, 16, 29);
  for (const int part : {0, 1}) {
    LoaderSource source(samples, Sampler(samples.size(), SampleOrder::kSequential, 0),
                        {.micro_batch = 2, .ranks = 1}, {.part = part, .parts = 2, .ring = 2});
    const MicroBatch batch = host_batch(text_batch(16));
    source.fill(0, 0, batch);
    for (size_t i = 0; i < 16; ++i) {
      const int row = static_cast<int>(i) % 8;
      const int first = part == 0 ? (row < 4 ? 0 : 8) : 4;  // rows 0..3 and 12..15, or 4..11
      const int token = static_cast<int>(i) / 8 * 16 + first + row;
      CHECK(batch.values<int32_t>("tokens")[i] == token * token % 29);
      CHECK(batch.values<int32_t>("targets")[i] == (token + 1) * (token + 1) % 29);
    }
  }
}

TEST_CASE("a short step has the beginnings of its samples, and documents within them", "[train]") {
  const SampleSet samples({std::make_shared<Squares>(16 * 8 + 1)}, 16, 29);
  LoaderSource source(samples, Sampler(samples.size(), SampleOrder::kSequential, 0),
                      {.micro_batch = 2, .ranks = 1}, {},
                      {.rules = {.documents = {.end = 4, .masks_loss = true}}});
  BatchSpec spec = text_batch(int64_t{2} * 5);
  spec.add(BatchSpec(
      {{.name = "positions", .shape = {10}}, {.name = "key_ranges", .shape = {2, 5, 2}}}));
  const MicroBatch batch = host_batch(spec);
  source.fill(0, 0, batch);
  const auto numbers = [&](std::string_view name) {
    const std::span<int32_t> values = batch.values<int32_t>(name);
    return std::vector(values.begin(), values.end());
  };
  using Ids = std::vector<int32_t>;  // squares by 29, from 0 and from 16 on
  CHECK(numbers("tokens") == Ids{0, 1, 4, 9, 16, 24, 28, 5, 13, 23});
  CHECK(numbers("targets") == Ids{1, 4, -1, 16, 25, 28, 5, 13, 23, 6});
  CHECK(numbers("positions") == Ids{0, 1, 2, 0, 1, 0, 1, 2, 3, 4});
  CHECK(numbers("key_ranges") == Ids{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5});
  CHECK_THROWS_WITH(
      source.fill(
          0, 0, host_batch(BatchSpec({{.name = "weights", .dtype = DType::kF32, .shape = {10}}}))),
      Catch::Contains("have none of its fields"));
}

}  // namespace
}  // namespace ds
