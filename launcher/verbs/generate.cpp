#include "launcher/verbs/generate.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/verbs/found_run.h"
#include "proto/control.pb.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPromptBytes = size_t{3} << 20;  // what a rank is told fits a message

// Returns how many bytes they are.
size_t add_prompts(control::GenerationOrder& order, const std::vector<PromptRecord>& prompts) {
  size_t bytes = 0;
  for (const PromptRecord& prompt : prompts) {
    control::GenerationOrder::Prompt& added = *order.add_prompts();
    added.set_text(prompt.text);
    bytes += prompt.text.size();
    for (const CarriedField& field : prompt.carried) {
      control::GenerationOrder::CarriedField& carried = *added.add_carried();
      carried.set_name(field.name);
      carried.set_json(field.json);
      bytes += field.name.size() + field.json.size();
    }
  }
  return bytes;
}

void set_drawing(control::GenerationOrder::Drawing& order, const DrawingArgs& drawing) {
  if (drawing.temperature) order.set_temperature(*drawing.temperature);
  if (drawing.top_k) order.set_top_k(*drawing.top_k);
  if (drawing.top_p) order.set_top_p(*drawing.top_p);
  if (drawing.min_p) order.set_min_p(*drawing.min_p);
  if (drawing.repetition_penalty) order.set_repetition_penalty(*drawing.repetition_penalty);
}

std::shared_ptr<const control::GenerationOrder> order_of(const GenerateArgs& args) {
  auto order = std::make_shared<control::GenerationOrder>();
  order->set_source(args.source);
  if (args.base) order->set_base(*args.base);
  if (is_talk(args, isatty(STDIN_FILENO) == 1)) {
    throw UsageError(
        "generate --chat: ranks and hosts take conversations from --prompt, --prompts or standard "
        "input; talk with the model in one process");
  }
  const size_t bytes = add_prompts(*order, prompt_records(args));
  if (bytes > kMostPromptBytes) {
    throw UsageError(
        fmt::format("generate: prompts of {} bytes, ranks are told {} at most; give them in parts",
                    bytes, kMostPromptBytes));
  }
  if (args.max_tokens) order->set_max_tokens(*args.max_tokens);
  set_drawing(*order->mutable_drawing(), args.drawing);
  order->set_num_samples(args.num_samples);
  if (args.logprobs) order->set_logprobs(*args.logprobs);
  for (const std::string& stop : args.stops) order->add_stops(stop);
  order->set_tokenizer(args.tokenizer);
  order->set_dtype(args.dtype);
  order->set_seed(args.seed);
  order->set_json(args.json);
  order->set_chat(args.chat.is_chat);
  order->set_chat_template(args.chat.chat_template);
  return order;
}

// Logs of the ranks and what else a job writes. Kept where a rank has failed: its log is worth a
// look, and the user has been told where it is.
class Scratch {
 public:
  explicit Scratch(const Environment& environment) {
    const auto named = environment.find("TMPDIR");
    const std::string root =
        named != environment.end() && !named->second.empty() ? named->second : "/tmp";
    std::string path = fs::absolute(root).string() + "/dslaunch-generate-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) throw_io_error("make a folder in", root, errno);
    path_ = path;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }
  ~Scratch() {
    std::error_code error;
    if (!report_has(run_file(path_, "report.json"), "root_cause")) fs::remove_all(path_, error);
  }

 private:
  fs::path path_;
};

RunOptions job_options(const GenerateArgs& args, const std::optional<std::string>& directory) {
  RunArgs run;
  run.num_ranks = args.num_ranks;
  if (args.threads > 0) run.num_threads = args.threads;
  run.hosts = args.hosts;
  run.device = "cpu";
  run.run_dir = directory;
  run.resume = "never";
  run.time_limit = "none";
  run.max_restarts = 0;                       // what is printed cannot be taken back
  run.hang_after = std::chrono::minutes(10);  // a long prompt is one step
  RunOptions options = run_options(run);
  options.for_another_verb = true;
  options.json = args.json;
  return options;
}

}  // namespace

int run_generation_job(const GenerateArgs& args, const CommandContext& context) {
  const Environment environment = as_environment(context.environment);
  const std::optional<StartedPlace> place = discover_start(environment);
  if (place && !place->is_launcher()) {  // another dslaunch has the prompts
    return run_training_job(job_options(args, std::nullopt), context);
  }
  const Scratch scratch(environment);
  RunOptions options = job_options(args, scratch.path().string());
  options.generation = order_of(args);
  write_whole_file(scratch.path() / kGenerationOrder, options.generation->SerializeAsString());
  return run_training_job(options, context);
}

}  // namespace ds
