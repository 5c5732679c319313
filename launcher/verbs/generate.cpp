#include "launcher/verbs/generate.h"

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

std::shared_ptr<const control::GenerationOrder> order_of(const GenerateArgs& args) {
  auto order = std::make_shared<control::GenerationOrder>();
  order->set_source(args.source);
  size_t bytes = 0;
  for (const std::string& text : prompt_texts(args)) {
    order->add_prompts(text);
    bytes += text.size();
  }
  if (bytes > kMostPromptBytes) {
    throw UsageError(
        fmt::format("generate: prompts of {} bytes, ranks are told {} at most; give them in parts",
                    bytes, kMostPromptBytes));
  }
  order->set_max_tokens(args.max_tokens);
  order->set_temperature(args.temperature);
  order->set_top_k(args.top_k);
  order->set_top_p(args.top_p);
  for (const std::string& stop : args.stops) order->add_stops(stop);
  order->set_tokenizer(args.tokenizer);
  order->set_dtype(args.dtype);
  order->set_seed(args.seed);
  order->set_json(args.json);
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
