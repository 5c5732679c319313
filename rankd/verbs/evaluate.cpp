#include "rankd/verbs/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "cli/text/terminal_text.h"
#include "config/reader/value.h"
#include "core/files/input_files.h"
#include "core/tasks/clock.h"
#include "core/text/device_name.h"
#include "core/values/index.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "data/tokens/dataset.h"
#include "rankd/verbs/classes/evaluate_classes.h"
#include "rankd/verbs/embed.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "train/assemble.h"
#include "train/evaluate/text_windows.h"
#include "train/model_source.h"

namespace ds {
namespace {

struct Figures {
  double nats = 0;
  int64_t predicted = 0;  // tokens
  int64_t tokens = 0;
  int64_t bytes = 0;  // of the text
  double seconds = 0;

  double loss() const { return nats / static_cast<double>(predicted); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(bytes); }
};

// One run of tokens with what the tokenizer puts before it.
class TokenRun {
 public:
  TokenRun(std::shared_ptr<const TokenSource> source, std::vector<int32_t> before,
           int64_t vocabulary)
      : source_(std::move(source)), before_(std::move(before)), vocabulary_(vocabulary) {}

  int64_t size() const { return before() + source_->size(); }
  int64_t before() const { return narrow<int64_t>(before_.size()); }
  void read(int64_t first, std::span<int32_t> out) const {
    const int64_t own = std::clamp<int64_t>(before() - first, 0, narrow<int64_t>(out.size()));
    std::copy_n(before_.begin() + std::min(first, before()), own, out.begin());
    const std::span<int32_t> rest = out.subspan(to_size(own));
    if (rest.empty()) return;
    const int64_t offset = first + own - before();
    source_->read(offset, rest);
    for (size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] >= 0 && rest[i] < vocabulary_) continue;
      throw DataError(fmt::format(
          "{}: token {}, the model has a vocabulary of {}; the tokenizer is not this model's",
          source_->locate(offset + static_cast<int64_t>(i)), rest[i], vocabulary_));
    }
  }

 private:
  std::shared_ptr<const TokenSource> source_;
  std::vector<int32_t> before_;
  int64_t vocabulary_;
};

Tensor losses_of(LoadedModel& loaded, const Shape& shape, std::span<const int32_t> tokens,
                 std::span<const int32_t> targets) {
  const auto uploaded = [&](std::span<const int32_t> values) {
    Tensor out = Tensor::empty(shape, DType::kI32, loaded.stream());
    loaded.stream().copy(values.data(), out.address(), out.bytes());
    return out;
  };
  Context context = loaded.context();
  return loaded.model().loss(context, uploaded(tokens), uploaded(targets), 1.0F);
}

class TextEvaluation {
 public:
  TextEvaluation(LoadedModel& loaded, const Tokenizer& tokenizer, std::vector<int32_t> separators)
      : loaded_(loaded), tokenizer_(tokenizer), separators_(std::move(separators)) {}

  void add(const TokenRun& run, int64_t length, int64_t stride, int64_t batch) {
    figures_.tokens += run.size() - run.before();
    count_bytes(run);
    const std::vector<TextWindow> windows = text_windows(run.size(), length, stride);
    for (size_t i = 0; i < windows.size();) {
      size_t end = i + 1;
      const size_t most = std::min(windows.size(), i + to_size(batch));
      while (end < most && windows[end].length == windows[i].length) ++end;
      score(run, std::span(windows).subspan(i, end - i));
      i = end;
    }
  }
  Figures& figures() { return figures_; }

 private:
  // Counts the bytes of the text: tokens that only separate documents have none.
  void count_bytes(const TokenRun& run) {
    constexpr int64_t kStep = 1 << 16;
    for (int64_t first = run.before(); first < run.size(); first += kStep) {
      std::vector<int32_t> ids(to_size(std::min(kStep, run.size() - first)));
      run.read(first, ids);
      std::erase_if(
          ids, [&](int32_t id) { return std::ranges::find(separators_, id) != separators_.end(); });
      figures_.bytes += static_cast<int64_t>(tokenizer_.decode(ids).size());
    }
  }

  // The same loss, without a tape, that training's validation uses.
  void score(const TokenRun& run, std::span<const TextWindow> windows) {
    const auto rows = narrow<int64_t>(windows.size());
    const int64_t length = windows[0].length;
    std::vector<int32_t> tokens(to_size(rows * length)), targets(tokens.size());
    std::vector<int32_t> row(to_size(length) + 1);
    for (int64_t i = 0; i < rows; ++i) {
      const TextWindow& window = nth(windows, i);
      run.read(window.first, row);
      std::copy_n(row.begin(), length, tokens.begin() + i * length);
      std::copy_n(row.begin() + 1, length, targets.begin() + i * length);
      std::fill_n(targets.begin() + i * length, window.known, -1);
      figures_.predicted += length - window.known;
    }
    const Tensor losses = losses_of(loaded_, {rows, length}, tokens, targets);
    std::vector<float> values(to_size(losses.numel()));
    loaded_.stream().copy(losses.address(), values.data(), losses.bytes());
    for (const float value : values) figures_.nats += value;
  }

  LoadedModel& loaded_;
  const Tokenizer& tokenizer_;
  std::vector<int32_t> separators_;
  Figures figures_;
};

std::string to_json(const Figures& f, const ModelSource& source, int64_t length, int64_t stride) {
  Value out = Value::object();
  out.set("source", Value::string(source.place));
  out.set("loss", Value::number(f.loss()));
  out.set("perplexity", Value::number(std::exp(f.loss())));
  out.set("bits_per_byte", Value::number(f.bits_per_byte()));
  out.set("nats", Value::number(f.nats));
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"tokens", f.tokens},
                                                              {"predicted_tokens", f.predicted},
                                                              {"bytes", f.bytes},
                                                              {"seq_length", length},
                                                              {"stride", stride}}) {
    out.set(key, Value::integer(value));
  }
  out.set("seconds", Value::number(f.seconds));
  return to_compact_json(out) + "\n";
}

std::string to_text(const Figures& f, int64_t length, int64_t stride) {
  return fmt::format(
      "loss           {:.6f} nats per token\n"
      "perplexity     {:.6g}\n"
      "bits per byte  {:.6f}\n"
      "tokens         {}, {} of them predicted in windows of {} every {}\n"
      "bytes          {}\n"
      "seconds        {:.1f}\n",
      f.loss(), std::exp(f.loss()), f.bits_per_byte(), f.tokens, f.predicted, length, stride,
      f.bytes, f.seconds);
}

int64_t within(const char* option, std::optional<int64_t> given, int64_t most, const char* what) {
  const int64_t value = given.value_or(most);
  if (value >= 1 && value <= most) return value;
  throw UsageError(fmt::format("eval: {} {}: expected 1 to {}, {}", option, value, most, what));
}

// On standard error: standard output is the answer's alone. What cannot be read is refused when it
// is opened.
void print_notes(FileSystem& files, std::span<const std::string> paths, const TextOptions& text) {
  const DataLook look = look_at_token_sources(files, paths, text, [](const Error&) {});
  for (const std::string& note : look.notes) say(stderr, "note: {}\n", note);
}

}  // namespace

int run_evaluate(const EvalArgs& args) {
  if (args.embed.embeds) return run_embed(args);
  const auto start = std::chrono::steady_clock::now();
  RealFileSystem real;
  InputFiles files(real);
  const ModelSource source = open_model_source(files, {args.source, args.base});
  if (source.model.classifier) {
    print_now(evaluate_classes(args, files, source));
    return static_cast<int>(ExitCode::kDone);
  }
  require_causal(source.model, "eval");
  if (args.label || args.text_pair) {
    throw UsageError(fmt::format(
        "eval: --label and --text-pair are for models that score classes, and {} predicts tokens",
        hf_model_class(source.model)));
  }
  const ModelDimensions dims = dimensions(source.model);
  const int64_t length =
      within("--seq-length", args.length, dims.positions, "the model's positions");
  const int64_t stride = within("--stride", args.stride, length, "the length of a window");
  const std::string name =
      args.tokenizer.empty() ? source.tokenizer : tokenizer_place(files, args.tokenizer);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files, name);
  check_vocabulary(*tokenizer, name, dims.vocabulary);
  const std::vector<int32_t> before = read_frame(files, name, *tokenizer).before;
  DataSection section;
  section.field = args.field.value_or(section.field);
  section.tokenizer = name;
  const TextOptions text = text_options(section, *tokenizer, files);
  std::vector<int32_t> separators;
  if (text.after_json_line.kind == Separator::Kind::kOneToken) {
    separators = tokenizer->encode(text.after_json_line.text);
  }
  std::vector<TokenRun> runs;
  print_notes(files, args.data, text);
  for (const auto& tokens : open_token_sources(files, args.data, *tokenizer, text)) {
    runs.emplace_back(tokens, before, dims.vocabulary);
  }
  const DType dtype = parse_dtype(args.dtype);
  const ModelDevice device(device_named(args.device), args.threads, [&](const ModelPlace& meta) {
    LoadedModel rehearsed(rehearsal_of(source), dtype, meta);
    const std::vector<int32_t> tokens(to_size(args.batch * length));
    losses_of(rehearsed, {args.batch, length}, tokens, tokens);
  });
  LoadedModel loaded(source, dtype, device.place());
  TextEvaluation evaluation(loaded, *tokenizer, separators);
  for (const TokenRun& run : runs) evaluation.add(run, length, stride, args.batch);
  Figures& figures = evaluation.figures();
  if (figures.predicted == 0)
    throw DataError("eval: the text is one token, and none is there to predict it from");
  if (!std::isfinite(figures.nats)) {
    throw ValidationError(
        fmt::format("eval: the loss is {}; the weights are damaged or too large for --dtype {}",
                    figures.nats, args.dtype));
  }
  figures.seconds = seconds_since(start);
  print_now(args.json ? to_json(figures, source, length, stride)
                      : to_text(figures, length, stride));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
