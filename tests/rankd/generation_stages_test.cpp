// Generation by several stages: the text of one process, whatever the cut; what is printed stays in
// order.
#include <atomic>
#include <map>
#include <regex>

#include "core/values/index.h"
#include "generate/generator.h"
#include "generate/stage_pipeline.h"
#include "model/families/zoo.h"
#include "model/pass/initializer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"

using namespace ds;

namespace {

// Bytes in, bytes out, from weights that a seed draws: what such a model says depends on all of its
// layers and on every position before.
ModelSource drawn_model(const ModelConfig& config) {
  return {.place = "drawn",
          .model = config,
          .tokenizer = "byte",
          .folder = std::nullopt,
          .load = [](PlainStore& store, Stream&) {
            for (ParamId id = 0; id < store.count(); ++id) {
              initialize(store.spec(id), 5, 0, store.weight(id));
            }
          }};
}

Gpt2Config small_gpt2(int64_t layers) {
  Gpt2Config config = testing::tiny_gpt2(layers);
  config.vocab_size = 256;
  config.n_positions = 24;
  config.initializer_range = 0.5;
  return config;
}

LlamaConfig small_llama(int64_t layers) {
  LlamaConfig config = testing::tiny_llama(layers);
  config.vocab_size = 256;
  config.max_position_embeddings = 24;
  config.initializer_range = 0.5;
  return config;
}

struct Written {
  std::string text;
  std::vector<std::string> notes;
  int64_t tokens = 0;

  GenerationOutput output() {
    return {.print = [this](const std::string& piece) { text += piece; },
            .note = [this](const std::string& line) { notes.push_back(line); },
            .progress = [this] { ++tokens; }};
  }
};

GenerateArgs args_of(std::vector<std::string> prompts) {
  GenerateArgs args;
  args.prompts = std::move(prompts);
  args.max_tokens = 12;
  args.drawing.temperature = 1;
  args.threads = 1;
  return args;
}

Written by_one(const ModelSource& source, const GenerateArgs& args) {
  RealFileSystem files;
  const GenerationTask task = generation_task(files, source, args, records_of(args.prompts));
  OneStage model(source, task, args);
  Written out;
  generate(model, task, args, out.output());
  return out;
}

Written by_stages(const ModelSource& source, const GenerateArgs& args, int stages) {
  Written out;
  std::atomic<int64_t> served = 0;
  test::run_ranks(stages, [&](Communicator& pipe) {
    RealFileSystem files;
    const GenerationTask task = generation_task(files, source, args, records_of(args.prompts));
    const LayerRange layers = nth(cut_model(source.model, "best", stages), pipe.rank());
    StageSteps steps(source, task, args, {.layers = layers, .slots = stages});
    if (pipe.rank() > 0) {
      serve_stage(steps, pipe, [&] { ++served; });
      return;
    }
    FirstStage first(steps, pipe);
    generate(first, task, args, out.output());
    first.end();
  });
  CHECK(served == out.tokens * (stages - 1));
  return out;
}

std::string without_times(const std::string& json) {
  return std::regex_replace(json, std::regex("\"(seconds|tokens_per_s)\":[^,]*,"), "");
}

// Draws nothing and computes nothing: the token after a request is what a table says.
class ScriptedTokens final : public NextTokens {
 public:
  ScriptedTokens(int slots, std::map<int64_t, std::string> texts)
      : slots_(slots), texts_(std::move(texts)) {}
  int slots() const override { return slots_; }
  void ask(const TokenRequest& request) override {
    asked.push_back(request);
    const std::string& text = texts_.at(request.prompt);
    answers_.push_back(static_cast<unsigned char>(text.at(static_cast<size_t>(request.drawn))));
    most = std::max(most, narrow<int>(answers_.size()));
  }
  DrawnToken answer() override {
    const int32_t token = answers_.front();
    answers_.pop_front();
    return {.id = token};
  }
  std::vector<TokenRequest> asked;
  int most = 0;  // under way at once

 private:
  const int slots_;
  const std::map<int64_t, std::string> texts_;
  std::deque<int32_t> answers_;
};

}  // namespace

TEST_CASE("stages say what one process says, to the byte", "[rankd]") {
  const std::vector<ModelConfig> models{small_gpt2(4), small_llama(3)};
  for (const ModelConfig& config : models) {
    const ModelSource source = drawn_model(config);
    for (GenerateArgs args : {args_of({"one prompt"}), args_of({"a", "bc", "def", "ghij", "k"})}) {
      const Written one = by_one(source, args);
      for (const int stages : {2, 3, 4, 5}) {
        CAPTURE(stages, args.prompts.size());
        const Written many = by_stages(source, args, stages);
        CHECK(many.text == one.text);
        CHECK(many.tokens == one.tokens);
      }
      args.seed += 1;
      CHECK(by_stages(source, args, 2).text != one.text);
    }
  }
}

TEST_CASE("samples, penalties and log-probabilities of stages are those of one process",
          "[rankd]") {
  const ModelSource source = drawn_model(small_gpt2(3));
  GenerateArgs args = args_of({"one", "two two two"});
  args.num_samples = 3;
  args.drawing.repetition_penalty = 1.7;
  args.drawing.min_p = 0.01;
  const Written one = by_one(source, args);
  for (const int stages : {2, 4}) {
    CAPTURE(stages);
    CHECK(by_stages(source, args, stages).text == one.text);
  }
  GenerateArgs plain = args;
  plain.drawing.repetition_penalty = 1;
  CHECK(by_stages(source, plain, 2).text != one.text);
  args.json = true;
  for (const int64_t alternatives : {0, 3, 999}) {
    CAPTURE(alternatives);
    args.logprobs = alternatives;
    const std::string of_one = without_times(by_one(source, args).text);
    CHECK_THAT(of_one, Catch::Contains("\"logprobs\":[{\"id\":"));
    CHECK(without_times(by_stages(source, args, 3).text) == of_one);
  }
}

TEST_CASE("a stage for every layer is as good, in the weights' own number type", "[rankd]") {
  ModelSource source = drawn_model(small_gpt2(2));
  source.stored = DType::kBF16;
  const GenerateArgs args = args_of({"xyz", "uvw"});
  CHECK(by_stages(source, args, 4).text == by_one(source, args).text);
}

TEST_CASE("stages go on beyond the model's positions as one process does", "[rankd]") {
  const ModelSource source = drawn_model(small_gpt2(2));
  GenerateArgs args = args_of({"this begins near the end", "short"});
  args.max_tokens = 40;
  const Written one = by_one(source, args);
  const Written many = by_stages(source, args, 3);
  CHECK(many.text == one.text);
  REQUIRE(many.notes.size() == 1);
  CHECK(many.notes == one.notes);
}

TEST_CASE("a stage has the weights and the keys and values of its own layers alone", "[rankd]") {
  const ModelSource source = drawn_model(small_gpt2(4));
  LoadedStage middle(source, {.begin = 2, .end = 4}, DType::kF32, {});
  int64_t params = 0;
  for (const ParamSpec& spec : specs_of_model(source.model, DType::kF32)) {
    params +=
        spec.name.find(".h.1.") != std::string::npos || spec.name.find(".h.2.") != std::string::npos
            ? 1
            : 0;
  }
  CHECK(middle.context(nullptr).store->count() == params);
  KvCache cache(middle.stream(), dimensions(source.model), DType::kF32, {1, 8}, middle.layers());
  CHECK(cache.keys(1).shape() == Shape{1, 8, 16});
  CHECK(cache.values(2).shape() == Shape{1, 8, 16});
  CHECK_THROWS_AS(cache.keys(0), InternalError);
  CHECK_THROWS_AS(cache.keys(3), InternalError);
}

TEST_CASE("texts that grow together are printed one after the other", "[rankd]") {
  const ModelSource source = drawn_model(small_gpt2(1));
  GenerateArgs args = args_of({"1", "2", "3", "4"});
  args.max_tokens = 6;
  args.stops = {"."};
  RealFileSystem files;
  const GenerationTask task = generation_task(files, source, args, records_of(args.prompts));
  ScriptedTokens model(3, {{0, "aaaaaa"}, {1, "b."}, {2, "cccc."}, {3, "dd."}});
  std::vector<std::string> pieces;
  generate(model, task, args,
           {.print = [&](const std::string& piece) { pieces.push_back(piece); },
            .note = [](const std::string&) { FAIL("nothing to note"); }});
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  CHECK(text == "1aaaaaa\n2b\n3cccc\n4dd\n");
  CHECK(model.most == 3);
  // The first text came piece by piece, the others when their turn came.
  REQUIRE(pieces.size() > 7);
  CHECK(pieces[1] == "a");
  // A slot that has ended begins the next prompt with a memory that is empty.
  for (const TokenRequest& request : model.asked) CHECK(request.fresh == (request.drawn == 0));
}

TEST_CASE("a stage that is lost ends the others with an error", "[rankd]") {
  const ModelSource source = drawn_model(small_gpt2(2));
  const GenerateArgs args = args_of({"ab", "cd", "ef"});
  CHECK_THROWS_AS(
      test::run_ranks(3,
                      [&](Communicator& pipe) {
                        RealFileSystem files;
                        const GenerationTask task =
                            generation_task(files, source, args, records_of(args.prompts));
                        const LayerRange layers =
                            nth(cut_model(source.model, "best", 3), pipe.rank());
                        StageSteps steps(source, task, args, {.layers = layers, .slots = 3});
                        if (pipe.rank() == 1) throw CommError("rank 1 is gone");
                        if (pipe.rank() == 2) return serve_stage(steps, pipe, [] {});
                        FirstStage first(steps, pipe);
                        Written out;
                        generate(first, task, args, out.output());
                      }),
      CommError);
}
