#include "rankd/verbs/talk.h"

#include <algorithm>
#include <memory>

#include "core/values/index.h"
#include "data/text/text_kind.h"
#include "generate/generator.h"
#include "generate/stage_steps.h"

namespace ds {
namespace {

constexpr int64_t kFirstRoom = 4096;  // positions; twice as many where a conversation needs them
constexpr const char* kHelp =
    "/new begins another conversation, /exit (or Ctrl-D) ends; all else is said to the model";

class Talk {
 public:
  Talk(FileSystem& files, const GenerateArgs& args, const TalkPlace& place)
      : files_(files),
        args_(args),
        place_(place),
        source_(open_model_source(files, {args.source, args.base})),
        messages_(first_messages(args)),
        task_(task_of_messages({{.role = "user", .content = "?"}})) {}

  void run() {
    make_room();
    place_.note(kHelp);
    for (const std::string& line : task_.settings.notes) place_.note(line);
    task_.settings.notes.clear();
    while (std::optional<std::string> line = place_.line("> ")) {
      if (is_blank(*line)) continue;
      if (*line == "/exit") return;
      if (*line == "/new") {
        messages_ = first_messages(args_);
      } else if (line->starts_with('/')) {
        place_.note(kHelp);
      } else {
        answer(*line);
      }
    }
  }

 private:
  GenerationTask task_of_messages(std::vector<ChatMessage> more) const {
    std::vector<ChatMessage> all = messages_;
    all.insert(all.end(), more.begin(), more.end());
    return generation_task(files_, source_, args_, {{.text = json_of(all), .carried = {}}});
  }

  void answer(const std::string& line) {
    std::string reply;
    try {
      const ChatMessage said{.role = "user", .content = line};
      task_.prompts = task_of_messages({said}).prompts;
      make_room();
      generate(*model_, task_, args_,
               {.print =
                    [&](const std::string& piece) {
                      reply += piece;
                      place_.print(piece);
                    },
                .note = place_.note});
      if (reply.ends_with('\n')) reply.pop_back();  // after the text
      messages_.push_back(said);
      messages_.push_back({.role = "assistant", .content = reply});
    } catch (const Error& error) {
      place_.note(fmt::format("error: {}; {}", error.what(), kHelp));
    }
  }

  // Keys and values of all positions of a model that reads a million of them fit no memory, so the
  // room grows with the conversation; the weights are read again then.
  void make_room() {
    const int64_t most = task_.dims.positions;
    const int64_t added = std::min(task_.settings.max_tokens, most);
    const int64_t needed = narrow<int64_t>(task_.prompts.front().ids.size()) + added;
    if (model_ != nullptr && std::min(needed, most) <= room_) return;
    int64_t room = std::max(kFirstRoom, room_);
    while (room < needed && room < most) room *= 2;
    room_ = std::min(room, most);
    model_.reset();
    const std::vector<Prompt> prompts = task_.prompts;
    const int64_t longest = std::max<int64_t>(1, room_ - added);
    task_.prompts.front().ids.assign(to_size(longest), 0);  // by which room is made
    model_ = std::make_unique<OneStage>(source_, task_, args_);
    task_.prompts = prompts;
  }

  FileSystem& files_;
  const GenerateArgs& args_;
  const TalkPlace& place_;
  const ModelSource source_;
  std::vector<ChatMessage> messages_;
  GenerationTask task_;
  std::unique_ptr<OneStage> model_;
  int64_t room_ = 0;  // positions
};

}  // namespace

void talk(FileSystem& files, const GenerateArgs& args, const TalkPlace& place) {
  if (args.json || args.logprobs || args.num_samples > 1 || args.lines || asks_for_ranks(args)) {
    throw UsageError(
        "generate --chat: without prompts on a terminal you talk with the model in one process; "
        "--json, --logprobs, --num-samples, --lines, ranks and hosts need --prompt or --prompts");
  }
  Talk(files, args, place).run();
}

}  // namespace ds
