// Networks by name. A network is a function that builds its graph, and a recipe: what `cohort train` does
// when the user says nothing else. A registry is a plain value: it is made, filled and handed on, there is no
// global one. Reading it from several threads is safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/trainable.h"
#include "graph/graph.h"

namespace cohort {

// Defaults of `cohort train` for a network, in the words of its flags. `grains` divides `batchSize`.
struct Recipe {
  std::string dataset = "synthetic";
  int channels = 3;
  int imageSize = 224;
  int classes = 1000;
  std::string transforms = {};  // of images; empty: the dataset's default. Synthetic samples have none
  std::string normalize = {};
  int batchSize = 128;
  int grains = 16;
  std::string optimizer = "momentum";
  double learningRate = 0.01;
  double momentum = 0.9;
  double weightDecay = 0.0;
  std::string weightDecayFilter = {};        // a regular expression on parameter names; empty: all weights
  std::string schedule = "constant";         // "piecewise:82=0.1,123=0.01": see optim
  std::vector<std::string> paramRules = {};  // each "REGEX:lr=2,decay=0"
  double averageDecay = 0.0;                 // moving average of weights; 0: off
  std::int64_t trainSteps = 1000;
};

// A model that is no graph: any code that computes a gradient.
struct ForeignModel {
  struct Options {
    Shape input;
    int classes = 0;
    std::span<const float> weights;  // the arena; shared by all lanes, and changed between steps
    std::uint64_t seed = 0;
    bool isTraining = true;  // false: without dropout and the like; only forward() is called
  };
  std::function<ParameterLayout(const Shape& input, int classes)> layout;
  // One lane's.
  std::function<std::unique_ptr<Trainable>(const Options&)> make;
};

struct Network {
  std::string name;
  std::string description = {};  // one line, for lists
  Recipe recipe = {};
  // One of these.
  std::function<Graph(const Shape& input, int classes)> build = {};
  std::optional<ForeignModel> foreign = {};
};

class NetworkRegistry {
 public:
  // Answers a name that no single network has ("resnet26"); nothing where the name is not of its family. A
  // name of its family that cannot be built is a UsageError that says which can.
  using Family = std::function<std::optional<Network>(std::string_view name)>;

  // A name that is taken is a UsageError.
  void add(Network network);
  // `pattern` stands for the family in messages: "resnetN with N = 6n + 2".
  void addFamily(std::string pattern, Family family);

  // An unknown name is a UsageError that offers the nearest one and lists all.
  Network find(std::string_view name) const;
  // In the order in which they were added, families left out.
  std::vector<std::string> names() const;

 private:
  struct NamedFamily {
    std::string pattern;
    Family family;
  };

  std::string unknownName(std::string_view name) const;

  std::vector<Network> networks_;
  std::vector<NamedFamily> families_;
};

// Every network of this library.
NetworkRegistry builtinNetworks();

}  // namespace cohort
