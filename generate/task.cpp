#include "generate/task.h"

#include <algorithm>

#include "core/values/index.h"
#include "data/chat_format.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "model/hf/generation.h"

namespace ds {
namespace {

std::vector<int32_t> eos_ids(FileSystem& files, const std::optional<std::string>& folder,
                             const std::string& tokenizer_name, const Tokenizer& tokenizer) {
  if (folder) {
    if (auto ids = read_eos_ids(files, *folder)) return *ids;
  }
  const std::optional<std::string> text = eos_token(files, tokenizer_name);
  if (!text) return {};
  std::vector<int32_t> ids = tokenizer.encode(*text);
  if (ids.size() != 1) ids.clear();  // no token ends a text
  return ids;
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

// Conversations as texts that end where a reply begins.
std::vector<PromptRecord> rendered(const ChatFormat& format, std::vector<PromptRecord> prompts) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string place = fmt::format("conversation {}", i + 1);
    prompts[i].text = format.render(prompts[i].text, place, true).text;
    prompts[i].begins_itself = true;
  }
  return prompts;
}

}  // namespace

GenerationTask task_of(FileSystem& files, const std::string& tokenizer, const ModelDimensions& dims,
                       const std::optional<std::string>& folder,
                       std::vector<PromptRecord> prompts) {
  GenerationTask task{.tokenizer = make_tokenizer(files, tokenizer), .dims = dims};
  check_vocabulary(*task.tokenizer, tokenizer, dims.vocabulary);
  task.eos = eos_ids(files, folder, tokenizer, *task.tokenizer);
  const std::vector<int32_t> before = read_frame(files, tokenizer, *task.tokenizer).before;
  for (PromptRecord& record : prompts) {
    Prompt prompt{.record = std::move(record), .ids = {}};
    if (!prompt.record.begins_itself) prompt.ids = before;
    const std::vector<int32_t> ids = task.tokenizer->encode(prompt.record.text);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    task.prompts.push_back(std::move(prompt));
  }
  for (int32_t id = 0; id < dims.vocabulary; ++id) {
    const bool ends = std::ranges::find(task.eos, id) != task.eos.end();
    if (!task.tokenizer->knows(id) && !ends) task.never.push_back(id);
  }
  return task;
}

GenerationTask generation_task(FileSystem& files, const ModelSource& source,
                               const GenerateArgs& args, std::vector<PromptRecord> prompts) {
  require_causal(source.model, "generate");
  const std::string name =
      args.tokenizer.empty() ? source.tokenizer : tokenizer_place(files, args.tokenizer);
  if (args.chat.is_chat) {
    prompts = rendered(ChatFormat::read(files, name, args.chat.chat_template), std::move(prompts));
  }
  GenerationTask task =
      task_of(files, name, dimensions(source.model), source.folder, std::move(prompts));
  task.settings = generation_settings(
      args, source.folder ? read_generation_defaults(files, *source.folder) : GenerationDefaults{});
  for (const Prompt& prompt : task.prompts) check_prompt(prompt, task.dims);
  return task;
}

DType generation_dtype(const ModelSource& source, const GenerateArgs& args) {
  return args.dtype.empty() ? source.stored : parse_dtype(args.dtype);
}

}  // namespace ds
