// Next sentence prediction beside masked tokens: the two losses that Hugging Face's
// BertForPreTraining has (tests/golden/pairs) on any mesh, and the batches that pairs of texts
// make.
#include "data/sentence_pairs.h"
#include "tests/train/heard_reports.h"
#include "tests/train/objectives/golden_folder.h"
#include "train/batches/pair_source.h"
#include "train/evaluate/evaluation.h"

namespace ds {
namespace {

using namespace testing;

// The rows of the golden run.
class GoldenRows final : public BatchSource {
 public:
  GoldenRows(const rapidjson::Value& rows, const SamplePlace& place, const BatchShape& shape)
      : rows_(rows), place_(place), shape_(shape) {}

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    using namespace batch_field;
    for (int64_t row = 0; row < shape_.micro_batch; ++row) {
      const int64_t index = step * shape_.global_batch() + first_sample(micro_step) + row;
      const rapidjson::Value& sample = rows_[static_cast<rapidjson::SizeType>(index)];
      const SampleFields fields = sample_fields(batch, row, shape_.micro_batch);
      for (size_t t = 0; t < fields.tokens.size(); ++t) {
        const auto at = static_cast<rapidjson::SizeType>(t);
        fields.tokens[t] = sample["tokens"][at].GetInt();
      }
      for (size_t t = 0; t < fields.segments.size(); ++t) {
        const auto place = static_cast<int>(t);
        fields.segments[t] =
            place >= sample["second"].GetInt() && place < sample["size"].GetInt() ? 1 : 0;
      }
      for (size_t t = 0; t < fields.targets.size(); ++t) {
        fields.targets[t] = sample["targets"][static_cast<rapidjson::SizeType>(t)].GetInt();
      }
      for (size_t i = 0; i < fields.key_ranges.size(); ++i) {
        fields.key_ranges[i] = i % 2 == 0 ? 0 : sample["size"].GetInt();
      }
      if (fields.pair_targets.empty()) continue;
      std::ranges::fill(fields.pair_targets, -1);
      fields.pair_targets.front() = sample["label"].GetInt();
    }
    if (batch.has(kWeights)) {
      std::ranges::fill(batch.values<float>(kWeights), weight_of(step));
    }
  }
  int64_t first_sample(int micro_step) const override {
    return shape_.first_index(micro_step, place_.rank);
  }

 private:
  float weight_of(int64_t step) const {
    double all = 0, masked = 0;
    for (int64_t row = 0; row < shape_.global_batch(); ++row) {
      const auto index = static_cast<rapidjson::SizeType>(step * shape_.global_batch() + row);
      for (const rapidjson::Value& target : rows_[index]["targets"].GetArray()) {
        ++all;
        masked += target.GetInt() >= 0 ? 1 : 0;
      }
    }
    return static_cast<float>(all / masked);
  }

  const rapidjson::Value& rows_;
  const SamplePlace place_;
  const BatchShape shape_;
};

TEST_CASE("next sentences and masked tokens are learnt as Hugging Face's BERT learns them",
          "[train]") {
  GoldenFolder run("pairs", "bert");
  const GoldenTraining training{.source = [&](const SamplePlace& place, const BatchShape& batch) {
    return std::make_unique<GoldenRows>(run.golden["rows"], place, batch);
  }};
  for (const Shares& share :
       {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 2, .micro_steps = 2},
        Shares{.ranks = 4, .stage = 3}, Shares{.ranks = 2, .stage = 1, .sizes = {.tensor = 2}},
        Shares{.ranks = 4, .micro_steps = 2, .sizes = {.pipe = 4}}}) {
    CAPTURE(share.ranks, share.stage, share.micro_steps);
    const Got got = train_folder(run, share, training);
    REQUIRE(got.losses.size() == 5);
    for (size_t step = 0; step < got.losses.size(); ++step) {
      CAPTURE(step);
      CHECK(got.losses[step] ==
            Approx(run.wanted("losses", step)).epsilon(step == 0 ? 1e-6 : 3e-6));
      CHECK(got.norms[step] == Approx(run.wanted("grad_norms", step)).epsilon(1e-4));
    }
    CHECK(got.last.at("loss_masked_lm") == Approx(run.wanted("masked_lm", 4)).epsilon(1e-5));
    CHECK(got.last.at("loss_next_sentence") ==
          Approx(run.wanted("next_sentence", 4)).epsilon(1e-5));
    CHECK(got.apart < 0.01);
  }
}

// Documents of as many sentences as their number says, a word of letters each.
std::string story() {
  std::string text;
  for (int document = 1; document <= 12; ++document) {
    for (int sentence = 0; sentence < document; ++sentence) {
      text.append(static_cast<size_t>(1 + (document * sentence) % 5),
                  static_cast<char>('a' + document));
      text += '\n';
    }
    text += '\n';
  }
  return text;
}

constexpr int64_t kLength = 16;
constexpr int32_t kMask = 256;

SampleSet samples_of(MemoryFileSystem& files) {
  files.write_text_atomically("/story.txt", story());
  const std::vector<std::string> paths{"/story.txt"};
  const PairForm form{.length = kLength,
                      .frame = {.before = {1}, .between = {2}, .after = {2}, .has_segments = true}};
  return {{open_sentence_pairs(files, paths, ByteTokenizer(), form)},
          numbers_of_labelled(kLength, 0),
          INT32_MAX};
}

// What all ranks read of a step, in the order of the samples.
struct ReadStep {
  std::vector<int32_t> tokens, targets, pairs, ranges, segments;
  std::vector<float> weights;
  bool operator==(const ReadStep&) const = default;
};

ReadStep read_step(const SampleSet& samples, int64_t step, const BatchShape& shape,
                   int64_t steps_of_mean = 0) {
  using namespace batch_field;
  const int64_t micro = shape.micro_batch, rows = micro * kLength;
  const BatchSpec spec({{std::string(kTokens), DType::kI32, {rows}},
                        {std::string(kTargets), DType::kI32, {rows}},
                        {std::string(kPairTargets), DType::kI32, {rows}},
                        {std::string(kSegments), DType::kI32, {rows}},
                        {std::string(kKeyRanges), DType::kI32, {micro, kLength, 2}},
                        {std::string(kWeights), DType::kF32, {rows}}});
  ReadStep out;
  for (int micro_step = 0; micro_step < shape.accumulation; ++micro_step) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      PairSource source(samples, Sampler(samples.size(), SampleOrder::kShuffled, 1), shape,
                        {.rank = rank},
                        {.rules = {.masking = MaskingRules{.share = 0.4,
                                                           .mask = kMask,
                                                           .vocabulary = kMask + 1,
                                                           .never = {1, 2, kMask}},
                                   .scored = ScoredSamples{.is_pair = true}},
                         .seed = 5,
                         .steps_of_mean = steps_of_mean});
      const MicroBatch batch = host_batch(spec);
      source.fill(step, micro_step, batch);
      const auto take = [&](std::string_view name, auto& to) {
        using T = typename std::remove_reference_t<decltype(to)>::value_type;
        std::ranges::copy(batch.values<T>(name), std::back_inserter(to));
      };
      take(kTokens, out.tokens);
      take(kTargets, out.targets);
      take(kPairTargets, out.pairs);
      take(kKeyRanges, out.ranges);
      take(kSegments, out.segments);
      take(kWeights, out.weights);
    }
  }
  return out;
}

// What its masked tokens weigh together, as a share of all tokens.
double weight_of(const ReadStep& read) {
  double sum = 0;
  for (size_t i = 0; i < read.targets.size(); ++i) {
    if (read.targets[i] >= 0) sum += static_cast<double>(read.weights[i]);
  }
  return sum / static_cast<double>(read.targets.size());
}

TEST_CASE("masked tokens of a global batch weigh as much as all of its tokens, however it is cut",
          "[train]") {
  MemoryFileSystem files;
  const SampleSet samples = samples_of(files);
  double least = 100, most = 0;
  for (const int64_t step : {0, 1, 2, 7}) {
    const ReadStep whole = read_step(samples, step, {.micro_batch = 4});
    CHECK(weight_of(whole) == Approx(1).epsilon(1e-6));
    CHECK(read_step(samples, step, {.micro_batch = 1, .accumulation = 4}) == whole);
    CHECK(read_step(samples, step, {.micro_batch = 1, .accumulation = 2, .ranks = 2}) == whole);
    CHECK(read_step(samples, step, {.micro_batch = 1, .ranks = 4}) == whole);
    least = std::min(least, static_cast<double>(whole.weights[0]));
    most = std::max(most, static_cast<double>(whole.weights[0]));
  }
  CHECK(most > least);  // batches have more and less of them
  double together = 0;
  for (const int64_t step : {0, 1, 2}) {
    together += weight_of(read_step(samples, step, {.micro_batch = 2, .ranks = 2}, 3)) / 3;
  }
  CHECK(together == Approx(1).epsilon(1e-6));
  CHECK(read_step(samples, 0, {.micro_batch = 4}, 3).weights[0] ==
        read_step(samples, 2, {.micro_batch = 4}, 3).weights[0]);
}

TEST_CASE("a pair has its class in its first row, and no padding is masked or seen", "[train]") {
  MemoryFileSystem files;
  const SampleSet samples = samples_of(files);
  std::vector<int32_t> numbers(to_size(samples.sequence_length()) + 1);
  const Sampler order(samples.size(), SampleOrder::kShuffled, 1);
  int goes_on = 0, masked = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const ReadStep read = read_step(samples, step, {.micro_batch = 1});
    samples.read(order.sample_at(step), numbers);
    const LabelledSample sample = labelled_sample(std::span(numbers).first(numbers.size() - 1), 0);
    CHECK(read.pairs[0] == sample.label);
    CHECK(std::ranges::count(read.pairs, -1) == kLength - 1);
    goes_on += sample.label == kGoesOn ? 1 : 0;
    for (int64_t t = 0; t < kLength; ++t) {
      const size_t at = to_size(t);
      CHECK(read.ranges[2 * at] == 0);
      CHECK(read.ranges[2 * at + 1] == sample.size);
      CHECK(read.segments[at] == (t >= sample.second_segment && t < sample.size ? 1 : 0));
      const int32_t was = sample.tokens[at];
      if (read.targets[at] < 0) CHECK(read.tokens[at] == was);
      if (read.targets[at] < 0) continue;
      ++masked;
      CHECK(read.targets[at] == was);
      CHECK(t < sample.size);
      CHECK((was != 1 && was != 2));
    }
  }
  CHECK(goes_on > 3);
  CHECK(goes_on < 17);
  CHECK(masked > 20);
}

// The metrics of the last step, with those of an evaluation.
Metrics evaluated(const EngineOptions& options, const TrainingData& data, int ranks) {
  const MeshSizes sizes{.data = ranks};
  const RunPlan plan = dry_run(options, sizes, {});
  Metrics last;
  test::run_ranks(ranks, [&](Communicator& comm) {
    with_rank(
        comm, HostAccess::kAlways,
        [&](auto& rank) {
          Engine engine(options, rank.resources(), plan.of_rank(comm.rank()).step);
          const BatchShape shape{.micro_batch = options.micro_batch,
                                 .accumulation = options.micro_steps(),
                                 .ranks = ranks};
          const SamplePlace place = place_of(engine.mesh());
          const auto source =
              make_sample_source(data.train, Sampler(data.train.size(), SampleOrder::kShuffled, 1),
                                 shape, place, {.rules = data.rules, .seed = 4});
          Metrics metrics = train_until(engine, *source, 3).back().metrics;
          HeardReports heard;
          Evaluation evaluation(engine, heard, *data.validation,
                                {.place = place,
                                 .rules = data.rules,
                                 .seed = 4,
                                 .shape = {.micro_batch = options.micro_batch, .ranks = ranks},
                                 .schedule = {.last_step = 3}});
          evaluation.after(3, metrics);
          if (comm.rank() == 0) last = metrics;
        },
        Devices::kShared, plan.mesh);
  });
  return last;
}

// From the keys to metrics: three steps of a small model, and what it makes of the same texts.
TEST_CASE("a configuration trains next sentences on any mesh", "[train]") {
  const std::string text = R"({
    "model": {"family": "bert", "task": "next_sentence_prediction", "num_hidden_layers": 2,
              "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12,
              "max_position_embeddings": 16, "vocab_size": 260, "hidden_dropout_prob": 0,
              "attention_probs_dropout_prob": 0},
    "data": {"train": ["/story.txt"], "validation": ["/story.txt"], "tokenizer": "byte",
             "masked_lm": {"mask_token_id": 256}, "next_sentence": {"short_seq_prob": 0.3}},
    "train": {"steps": 3, "seed": 4}, "train_batch_size": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}})";
  MemoryFileSystem files;
  files.write_text_atomically("/story.txt", story());
  const Config config = parse_config(text);
  const ModelConfig model = model_config(config, files);
  CHECK(hf_model_class(model) == "BertForPreTraining");
  const TrainingData data = open_data(config.data, model, files);
  REQUIRE(data.rules.scored);
  REQUIRE(data.rules.masking);
  std::vector<Metrics> all;
  for (const Shares& share : {Shares{}, Shares{.ranks = 2, .stage = 3}, Shares{.micro_steps = 2}}) {
    Config shared = config;
    shared.zero_optimization.stage = share.stage;
    shared.gradient_accumulation_steps = share.micro_steps;
    const EngineOptions options = engine_options(shared, model, share.ranks);
    CHECK(options.content.weights);
    all.push_back(evaluated(options, data, share.ranks));
  }
  for (const char* const name : {"loss", "loss_masked_lm", "loss_next_sentence", "grad_norm"}) {
    CAPTURE(name);
    for (const size_t other : {1, 2}) {
      CHECK(all[other].at(name) == Approx(all[0].at(name)).epsilon(2e-5));
    }
  }
  for (const char* const name : {"validation_loss", "validation_accuracy"}) {
    CHECK(all[1].at(name) == Approx(all[0].at(name)).epsilon(2e-5));
  }
  CHECK(all[0].at("loss") ==
        Approx(all[0].at("loss_masked_lm") + all[0].at("loss_next_sentence")).epsilon(1e-5));
}

}  // namespace
}  // namespace ds
