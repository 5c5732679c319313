#include "rankd/verbs/generate.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>

#include "core/clock.h"
#include "core/files/input_files.h"
#include "core/index.h"
#include "core/rng.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "model/hf/generation.h"
#include "rankd/verbs/input_texts.h"
#include "rankd/verbs/shown_text.h"
#include "train/model_source.h"
#include "train/token_sampler.h"

namespace ds {
namespace {

enum class Finish : uint8_t { kEos, kStop, kLength };

const char* name_of(Finish finish) {
  switch (finish) {
    case Finish::kEos:
      return "eos";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
  }
  throw InternalError("generate: unknown end");
}

struct Continuation {
  std::string text;
  std::vector<int32_t> ids;
  Finish finish = Finish::kLength;
  double seconds = 0;  // the prompt's included
};

struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

// All that is known before the weights are.
struct Task {
  std::unique_ptr<Tokenizer> tokenizer;
  ModelDimensions dims;
  std::vector<int32_t> eos, never;
  std::vector<Prompt> prompts;
};

std::vector<int32_t> eos_ids(FileSystem& files, const ModelSource& source,
                             const std::string& tokenizer_name, const Tokenizer& tokenizer) {
  if (source.folder) {
    if (auto ids = read_eos_ids(files, *source.folder)) return *ids;
  }
  const std::optional<std::string> text = eos_token(files, tokenizer_name);
  if (!text) return {};
  std::vector<int32_t> ids = tokenizer.encode(*text);
  if (ids.size() != 1) ids.clear();  // no token ends a text
  return ids;
}

std::vector<std::string> prompt_texts(const GenerateArgs& args) {
  std::vector<std::string> texts;
  const auto take_input = [&] {
    const std::string input = read_standard_input("generate");
    if (!args.lines) {
      texts.push_back(without_last_break(input));
      return;
    }
    for (std::string& line : lines_of(input)) texts.push_back(std::move(line));
  };
  for (const std::string& prompt : args.prompts) {
    if (prompt == "-") {
      take_input();
    } else {
      texts.push_back(prompt);
    }
  }
  if (args.prompts.empty()) take_input();
  if (texts.empty()) throw UsageError("generate: no line of standard input is a prompt");
  return texts;
}

void check_prompt(const Prompt& prompt, const ModelDimensions& dims) {
  if (prompt.ids.empty()) {
    throw UsageError(
        "generate: the prompt is empty, and the tokenizer begins texts with no token of its own; "
        "give at "
        "least one character");
  }
  const auto count = narrow<int64_t>(prompt.ids.size());
  if (count > dims.positions) {
    throw UsageError(fmt::format(
        "generate: the prompt is {} tokens, the model has {} positions; shorten it by {}", count,
        dims.positions, count - dims.positions));
  }
}

Task prepare(FileSystem& files, const ModelSource& source, const GenerateArgs& args) {
  const std::string name =
      args.tokenizer.empty() ? source.tokenizer : tokenizer_place(files, args.tokenizer);
  Task task{.tokenizer = make_tokenizer(files, name),
            .dims = dimensions(source.model),
            .eos = {},
            .never = {},
            .prompts = {}};
  check_vocabulary(*task.tokenizer, name, task.dims.vocabulary);
  task.eos = eos_ids(files, source, name, *task.tokenizer);
  const std::vector<int32_t> before = read_frame(files, name, *task.tokenizer).before;
  for (std::string& text : prompt_texts(args)) {
    Prompt prompt{.text = std::move(text), .ids = before};
    const std::vector<int32_t> ids = task.tokenizer->encode(prompt.text);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    check_prompt(prompt, task.dims);
    task.prompts.push_back(std::move(prompt));
  }
  for (int32_t id = 0; id < task.dims.vocabulary; ++id) {
    const bool ends = std::ranges::find(task.eos, id) != task.eos.end();
    if (!task.tokenizer->knows(id) && !ends) task.never.push_back(id);
  }
  return task;
}

SamplerOptions sampler_options(const GenerateArgs& args) {
  return {.temperature = args.temperature, .top_k = args.top_k, .top_p = args.top_p};
}

class Generator {
 public:
  Generator(LoadedModel& loaded, const Task& task, const GenerateArgs& args)
      : loaded_(loaded),
        task_(task),
        args_(args),
        sampler_(sampler_options(args), task.never),
        cache_(loaded.stream(), loaded.dims(), loaded.model().dtype(), 1, loaded.dims().positions) {
  }

  // `on_text` gets each piece of the text as soon as it can be shown.
  Continuation run(const std::vector<int32_t>& prompt, const Rng& rng,
                   const std::function<void(const std::string&)>& on_text) {
    const auto start = std::chrono::steady_clock::now();
    Continuation out;
    ShownText shown(args_.stops);
    const auto show = [&](const std::string& text) {
      out.text += text;
      if (!text.empty()) on_text(text);
    };
    std::vector<int32_t> all = prompt;
    cache_.clear();
    Tensor logits = next_logits(all);
    for (int64_t i = 0;; ++i) {
      const int32_t token = draw(logits, rng.uniform(static_cast<uint64_t>(i)));
      if (std::ranges::find(task_.eos, token) != task_.eos.end()) {
        out.finish = Finish::kEos;
        break;
      }
      out.ids.push_back(token);
      all.push_back(token);
      show(shown.add(task_.tokenizer->decode({&token, 1})));
      if (shown.has_stopped()) {
        out.finish = Finish::kStop;
        break;
      }
      if (i + 1 == args_.max_tokens) break;
      logits = continue_logits(all);
    }
    show(shown.finish());
    out.seconds = seconds_since(start);
    return out;
  }

 private:
  int32_t draw(Tensor& logits, float uniform) {
    return sampler_.draw({logits.data<float>(), to_size(task_.dims.vocabulary)}, uniform);
  }

  Tensor next_logits(std::span<const int32_t> tokens) {
    Tensor input =
        Tensor::empty({1, narrow<int64_t>(tokens.size())}, DType::kI32, loaded_.stream());
    std::ranges::copy(tokens, input.data<int32_t>());
    Context context = loaded_.context(&cache_);
    return loaded_.model().next_logits(context, input);
  }

  // After the last of `all`. Where the model's positions are used up, from the last half of them
  // on.
  Tensor continue_logits(std::span<const int32_t> all) {
    const int64_t positions = task_.dims.positions;
    if (cache_.length() < positions) return next_logits(all.last(1));
    if (!told_) {
      fmt::print(stderr,
                 "note: the text has reached the model's {} positions; it goes on from its last {} "
                 "tokens\n",
                 positions, std::max<int64_t>(1, positions / 2));
    }
    told_ = true;
    cache_.clear();
    return next_logits(all.last(to_size(std::max<int64_t>(1, positions / 2))));
  }

  LoadedModel& loaded_;
  const Task& task_;
  const GenerateArgs& args_;
  TokenSampler sampler_;
  KvCache cache_;
  bool told_ = false;
};

std::string to_json(const Prompt& prompt, const Continuation& made) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> out(buffer);
  const auto tokens = narrow<int64_t>(made.ids.size());
  const std::string prompt_text = as_utf8(prompt.text);
  out.StartObject();
  out.Key("prompt");
  out.String(prompt_text.data(), static_cast<rapidjson::SizeType>(prompt_text.size()));
  out.Key("text");
  out.String(made.text.data(), static_cast<rapidjson::SizeType>(made.text.size()));
  out.Key("prompt_tokens");
  out.Uint64(prompt.ids.size());
  out.Key("tokens");
  out.Int64(tokens);
  out.Key("ids");
  out.StartArray();
  for (const int32_t id : made.ids) out.Int(id);
  out.EndArray();
  out.Key("finish_reason");
  out.String(name_of(made.finish));
  out.Key("seconds");
  out.Double(made.seconds);
  out.Key("tokens_per_s");
  out.Double(static_cast<double>(tokens) / made.seconds);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace

int run_generate(const GenerateArgs& args) {
  if (args.lines && !args.prompts.empty() &&
      std::ranges::find(args.prompts, "-") == args.prompts.end()) {
    throw UsageError(
        "generate: --lines cuts standard input into prompts, but --prompt gives other texts");
  }
  if (std::ranges::find(args.stops, "") != args.stops.end())
    throw UsageError("generate: --stop: the text is empty");
  RealFileSystem real;
  InputFiles files(real);
  const ModelSource source = open_model_source(files, args.source);
  const Task task = prepare(files, source, args);
  const DType dtype = args.dtype.empty() ? source.stored : parse_dtype(args.dtype);
  LoadedModel loaded(source, dtype, args.threads);
  Generator generator(loaded, task, args);
  const Rng rng(args.seed, "generate");
  for (size_t i = 0; i < task.prompts.size(); ++i) {
    const Prompt& prompt = task.prompts[i];
    if (!args.json) print_now(as_utf8(prompt.text));
    const auto on_text = [&](const std::string& text) {
      if (!args.json) print_now(text);
    };
    const Continuation made = generator.run(prompt.ids, rng.derive(i), on_text);
    print_now(args.json ? to_json(prompt, made) : "\n");
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
