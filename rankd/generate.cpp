#include "rankd/generate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "config/load.h"
#include "core/input_files.h"
#include "data/tokenizer.h"
#include "model/hf_weights.h"
#include "model/plain_store.h"
#include "model/zoo.h"
#include "rankd/assemble.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// What to generate with, wherever it came from.
struct Source {
  ModelConfig model;
  std::string tokenizer;
  // Fills the store's weights.
  std::function<void(PlainStore&)> load;
};

// The folder's own. What a run with the byte tokenizer wrote has none, and the run's configuration beside it says so.
std::string tokenizer_of(FileSystem& files, const std::string& folder) {
  const fs::path run = fs::path(folder).parent_path();
  const bool of_run = files.exists((run / "config.json").string()) && files.exists((run / "checkpoints").string());
  if (!of_run || !tokenizer_files(files, folder).empty()) return folder;
  return load_config((run / "config.json").string()).data.tokenizer == "byte" ? "byte" : folder;
}

Source from_folder(FileSystem& files, const std::string& folder) {
  return {.model = read_hf_model(files, folder),
          .tokenizer = tokenizer_of(files, folder),
          .load = [&files, folder](PlainStore& store) {
            const std::vector<ParamSpec> specs = specs_of(store);
            const HfWeights weights(files, folder, specs);
            for (size_t i = 0; i < specs.size(); ++i) {
              Tensor flat = store.weight(static_cast<ParamId>(i)).reshape({specs[i].shape.numel()});
              weights.read(i, 0, flat);
            }
          }};
}

// A committed tag, with the configuration of its run two folders up.
Source from_tag(FileSystem& files, const std::string& tag) {
  const std::string run = fs::path(tag).parent_path().parent_path().string();
  const Config config = load_config(run + "/config.json");
  return {.model = model_config(config.model, files),
          .tokenizer = config.data.tokenizer,
          .load = [&files, tag](PlainStore& store) {
            CheckpointReader reader = CheckpointReader::open_directory(files, tag);
            for (ParamId id = 0; id < store.count(); ++id) {
              const ParamSpec& spec = store.spec(id);
              Tensor flat = store.weight(id).reshape({spec.shape.numel()});
              reader.get(spec.name + "/weight", Region::whole(spec.shape), flat);
            }
          }};
}

Source open_source(FileSystem& files, const std::string& given) {
  const std::string place = fs::weakly_canonical(given).string();
  if (files.exists(place + "/manifest.json")) return from_tag(files, place);
  if (files.exists(place + "/model.safetensors") ||
      files.exists(place + "/model.safetensors.index.json")) {
    return from_folder(files, place);
  }
  if (files.exists(place + "/final/model.safetensors")) return from_folder(files, place + "/final");
  for (const std::string& root : {place + "/checkpoints", place}) {
    if (!files.exists(root)) continue;
    const FoundTag found = find_newest_valid(files, root, Depth::kIndexes);
    for (const RejectedTag& trace : found.rejected) {
      if (found.tag) fmt::print(stderr, "warning: {}; generating from {}\n", trace.why, found.tag->tag);
    }
    if (found.tag) return from_tag(files, root + "/" + found.tag->tag);
    if (!found.rejected.empty()) {
      throw InputMissing(fmt::format("generate: no tag can be read: {}", found.rejected.front().why));
    }
  }
  throw InputMissing(fmt::format(
      "generate: {} is no run directory, checkpoint tag or Hugging Face folder", given));
}

// Draws from softmax(logits / temperature) over the top_k likeliest; temperature 0: the likeliest.
int32_t draw(std::span<const float> logits, const GenerateArgs& args, float uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t keep = args.temperature == 0 ? 1
                      : args.top_k == 0
                          ? logits.size()
                          : std::min(logits.size(), static_cast<size_t>(args.top_k));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(keep),
                            [&](int32_t a, int32_t b) {
                              const float x = logits[static_cast<size_t>(a)];
                              const float y = logits[static_cast<size_t>(b)];
                              return x > y || (x == y && a < b);
                            });
  if (keep == 1) return order.front();
  std::vector<double> weights(keep);
  const double best = logits[static_cast<size_t>(order.front())];
  for (size_t i = 0; i < keep; ++i) {
    weights[i] = std::exp((logits[static_cast<size_t>(order[i])] - best) / args.temperature);
  }
  double left = uniform * std::reduce(weights.begin(), weights.end());
  for (size_t i = 0; i + 1 < keep; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[keep - 1];
}

Tensor next_logits(LanguageModel& model, Context& context, std::span<const int32_t> tokens) {
  Tensor input = Tensor::empty({1, static_cast<int64_t>(tokens.size())}, DType::kI32,
                               context.stream);
  std::ranges::copy(tokens, input.data<int32_t>());
  return model.next_logits(context, input);
}

// The longest suffix of `all` that leaves room for at least half a window of new tokens.
std::span<const int32_t> window(const std::vector<int32_t>& all, int64_t positions) {
  const auto keep = std::min(all.size(), static_cast<size_t>(std::max<int64_t>(1, positions / 2)));
  return std::span(all).subspan(all.size() - keep);
}

}  // namespace

int run_generate(const GenerateArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
  const Source source = open_source(files, args.source);
  const std::unique_ptr<Tokenizer> tokenizer =
      make_tokenizer(files, args.tokenizer.empty() ? source.tokenizer : args.tokenizer);
  HostMemory memory;
  ThreadPool pool(args.threads);
  Stream stream({.memory = &memory, .pool = &pool});
  PlainStore store(stream, args.seed);
  const std::unique_ptr<LanguageModel> model = make_model(source.model, DType::kF32, store);
  store.seal();
  source.load(store);

  const ModelDimensions dims = dimensions(source.model);
  std::vector<int32_t> tokens = tokenizer->encode(args.prompt);
  if (tokens.empty()) throw UsageError("generate: the prompt is empty; give at least one character");
  KvCache cache(stream, dims, DType::kF32, 1, dims.positions);
  Context context{.stream = stream, .store = store, .cache = &cache};
  const Rng rng(args.seed, "generate");
  std::fputs(args.prompt.c_str(), stdout);
  Tensor logits = next_logits(*model, context, window(tokens, dims.positions));
  for (int64_t i = 0; i < args.max_tokens; ++i) {
    const std::span values(logits.data<float>(), static_cast<size_t>(dims.vocabulary));
    const int32_t token = draw(values, args, rng.uniform(static_cast<uint64_t>(i)));
    tokens.push_back(token);
    const std::string text = tokenizer->decode({&token, 1});
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    if (cache.length() + 1 > dims.positions) {
      cache.clear();
      logits = next_logits(*model, context, window(tokens, dims.positions));
    } else {
      logits = next_logits(*model, context, {&token, 1});
    }
  }
  std::fputs("\n", stdout);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
