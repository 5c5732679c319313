// `dslaunch env`
#pragma once

namespace CLI {
class App;
}

namespace ds {

struct EnvOptions {
  bool json = false;
};

void describe_env(CLI::App& app, EnvOptions& options);

}  // namespace ds
