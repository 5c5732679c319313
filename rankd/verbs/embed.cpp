#include "rankd/verbs/embed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/standard_input.h"
#include "cli/text/terminal_text.h"
#include "cli/verbs/prompts.h"
#include "core/files/input_files.h"
#include "core/text/device_name.h"
#include "core/text/utf8.h"
#include "core/values/index.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "generate/text_json.h"
#include "kernels/elementwise/elementwise.h"
#include "model/hf/embedding_recipe.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "train/assemble.h"
#include "train/model_source.h"

namespace ds {
namespace {

struct EmbeddedText {
  PromptRecord record;
  std::vector<int32_t> ids{};  // with those around the text
  bool is_cut = false;
  std::vector<float> vector{};
};

EmbeddingRecipe recipe_of(FileSystem& files, const ModelSource& source, const EmbedArgs& args) {
  std::optional<Pooling> chosen;
  if (args.pooling == "mean") chosen = Pooling::kMean;
  if (args.pooling == "cls") chosen = Pooling::kFirst;
  if (args.pooling == "last") chosen = Pooling::kLast;
  EmbeddingRecipe recipe;
  if (source.folder) recipe = read_embedding_recipe(files, *source.folder, chosen);
  if (chosen) recipe.pooling = *chosen;
  if (!args.normalize.empty()) recipe.normalizes = args.normalize == "yes";
  for (const std::string& what : recipe.not_applied) say(stderr, "note: {} is not applied\n", what);
  return recipe;
}

std::vector<EmbeddedText> texts_of(const EmbedArgs& args) {
  const std::string text = read_prompt_file(args.texts, "eval");
  const std::string name = args.texts == "-" ? "standard input" : args.texts;
  std::vector<EmbeddedText> texts;
  for (PromptRecord& record :
       args.lines ? records_of(lines_of(text)) : records_of_json_lines(text, name)) {
    for (const CarriedField& field : record.carried) {
      if (field.name != "embedding" && field.name != "truncated") continue;
      throw DataError(
          fmt::format("{}: the field \"{}\" has the name of one that the output has; rename it",
                      name, field.name));
    }
    texts.push_back({.record = std::move(record)});
  }
  if (texts.empty()) throw UsageError(fmt::format("eval: no line of {} is a text", name));
  return texts;
}

// The ids of each text, of at most `longest`: what is too much is taken from the end of the text.
void tokenize_texts(std::vector<EmbeddedText>& texts, const Tokenizer& tokenizer,
                    const TokenizerFrame& frame, int64_t longest) {
  const auto around = narrow<int64_t>(frame.before.size() + frame.after.size());
  if (around >= longest) {
    throw UsageError(
        fmt::format("eval: {} tokens of a text, {} of which the tokenizer puts around "
                    "it; give a larger --seq-length",
                    longest, around));
  }
  int64_t cut = 0;
  for (EmbeddedText& text : texts) {
    std::vector<int32_t> ids = tokenizer.encode(text.record.text);
    text.is_cut = narrow<int64_t>(ids.size()) > longest - around;
    if (text.is_cut) ids.resize(to_size(longest - around));
    cut += text.is_cut ? 1 : 0;
    ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
    if (ids.empty()) {
      throw DataError("eval: a text is empty, and the tokenizer puts no token around it");
    }
    text.ids = std::move(ids);
  }
  if (cut > 0) {
    say(stderr, "note: {} of {} texts have more than {} tokens; what follows these is left out\n",
        cut, texts.size(), longest);
  }
}

// The vectors of all tokens of some texts of one length, in fp32 on the host.
std::vector<float> hidden_states(LoadedModel& loaded, std::span<const int32_t> ids,
                                 const Shape& shape) {
  Stream& stream = loaded.stream();
  Tensor tokens = Tensor::empty(shape, DType::kI32, stream);
  stream.copy(ids.data(), tokens.address(), tokens.bytes());
  Context context = loaded.context();
  Tensor states = loaded.model().hidden_states(context, tokens);
  if (states.dtype() != DType::kF32) {
    Tensor wide = Tensor::empty(states.shape(), DType::kF32, stream);
    kernels::cast(stream, states, wide);
    states = std::move(wide);
  }
  std::vector<float> values(to_size(states.numel()));
  stream.copy(states.address(), values.data(), states.bytes());
  return values;
}

// One vector of those of a text's tokens, which lie one after the other.
std::vector<float> pooled(std::span<const float> states, int64_t width,
                          const EmbeddingRecipe& recipe) {
  const int64_t tokens = narrow<int64_t>(states.size()) / width;
  int64_t first = 0, count = tokens;
  if (recipe.pooling != Pooling::kMean) count = 1;
  if (recipe.pooling == Pooling::kLast) first = tokens - 1;
  std::vector<double> sum(to_size(width));
  for (int64_t token = first; token < first + count; ++token) {
    for (int64_t i = 0; i < width; ++i) nth(sum, i) += nth(states, token * width + i);
  }
  double scale = 1 / static_cast<double>(count);
  if (recipe.normalizes) {
    const double squares = std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0);
    scale = squares > 0 ? 1 / std::sqrt(squares) : 0;  // nothing has no direction
  }
  std::vector<float> out;
  for (const double value : sum) out.push_back(static_cast<float>(value * scale));
  return out;
}

// Texts of one length are computed together, `batch` at a time.
void embed_texts(LoadedModel& loaded, std::vector<EmbeddedText>& texts,
                 const EmbeddingRecipe& recipe, int64_t batch) {
  std::vector<EmbeddedText*> order;
  for (EmbeddedText& text : texts) order.push_back(&text);
  std::ranges::stable_sort(order, {}, [](const EmbeddedText* text) { return text->ids.size(); });
  for (size_t i = 0; i < order.size();) {
    const size_t length = order[i]->ids.size();
    std::vector<int32_t> ids;
    size_t end = i;
    for (; end < order.size() && end < i + to_size(batch); ++end) {
      if (order[end]->ids.size() != length) break;
      ids.insert(ids.end(), order[end]->ids.begin(), order[end]->ids.end());
    }
    const std::vector<float> states =
        hidden_states(loaded, ids, {narrow<int64_t>(end - i), narrow<int64_t>(length)});
    const size_t of_text = states.size() / (end - i);
    const int64_t width = narrow<int64_t>(of_text / length);
    for (size_t text = i; text < end; ++text) {
      order[text]->vector =
          pooled(std::span(states).subspan((text - i) * of_text, of_text), width, recipe);
    }
    i = end;
  }
}

void require_finite(const std::vector<EmbeddedText>& texts, const std::string& dtype) {
  for (const EmbeddedText& text : texts) {
    for (const float value : text.vector) {
      if (std::isfinite(value)) continue;
      throw ValidationError(fmt::format(
          "eval: a vector has the element {}; the weights are damaged or too large for --dtype {}",
          value, dtype));
    }
  }
}

std::string to_json(const EmbeddedText& text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> out(buffer);
  const std::string shown = as_utf8(text.record.text);
  out.StartObject();
  out.Key("text");
  out.String(shown.data(), static_cast<rapidjson::SizeType>(shown.size()));
  out.Key("tokens");
  out.Uint64(text.ids.size());
  out.Key("truncated");
  out.Bool(text.is_cut);
  out.Key("embedding");
  out.StartArray();
  for (const float value : text.vector) {
    const std::string number = fmt::format("{}", value);  // the shortest that is read back the same
    out.RawValue(number.data(), number.size(), rapidjson::kNumberType);
  }
  out.EndArray();
  write_carried(out, text.record);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string to_text(const EmbeddedText& text) {
  std::string line;
  for (const float value : text.vector) line += fmt::format("{}{}", line.empty() ? "" : " ", value);
  return line + "\n";
}

int64_t longest_text(const EvalArgs& args, const EmbeddingRecipe& recipe, int64_t positions) {
  if (args.length && *args.length > positions) {
    throw UsageError(fmt::format("eval: --seq-length {}: expected 1 to {}, the model's positions",
                                 *args.length, positions));
  }
  return args.length.value_or(std::min(recipe.longest.value_or(positions), positions));
}

}  // namespace

int run_embed(const EvalArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
  std::vector<EmbeddedText> texts = texts_of(args.embed);
  const ModelSource source = open_model_source(files, {args.source, args.base}, HeadUse::kNone);
  const EmbeddingRecipe recipe = recipe_of(files, source, args.embed);
  const ModelDimensions dims = dimensions(source.model);
  const std::string name =
      args.tokenizer.empty() ? source.tokenizer : tokenizer_place(files, args.tokenizer);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files, name);
  check_vocabulary(*tokenizer, name, dims.vocabulary);
  tokenize_texts(texts, *tokenizer, read_frame(files, name, *tokenizer),
                 longest_text(args, recipe, dims.positions));
  size_t length = 0;
  for (const EmbeddedText& text : texts) length = std::max(length, text.ids.size());
  const DType dtype = parse_dtype(args.dtype);
  const ModelDevice device(device_named(args.device), args.threads, [&](const ModelPlace& meta) {
    LoadedModel rehearsed(rehearsal_of(source), dtype, meta);
    const std::vector<int32_t> ids(to_size(args.batch) * length);
    hidden_states(rehearsed, ids, {args.batch, narrow<int64_t>(length)});
  });
  LoadedModel loaded(source, dtype, device.place());
  embed_texts(loaded, texts, recipe, args.batch);
  require_finite(texts, args.dtype);
  for (const EmbeddedText& text : texts) print_now(args.json ? to_json(text) : to_text(text));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
