#include "sync/tree_sum.h"

#include <utility>

namespace cohort {
namespace {

void addInto(float* __restrict sum, const float* __restrict part, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
}

}  // namespace

class TreeSum::Sink : public GradientSink {
 public:
  Sink(TreeSum& sum, int leaf, float* arena, float* scratch)
      : sum_(sum), leaf_(leaf), arena_(arena), scratch_(scratch) {}

  std::span<float> open(PieceIndex piece) override {
    const Piece& where = sum_.layout_.piece(piece);
    return {at(where), where.size};
  }

  void close(PieceIndex piece) override { sum_.finish(leaf_, piece, at(sum_.layout_.piece(piece))); }

 private:
  float* at(const Piece& piece) { return arena_ != nullptr ? arena_ + piece.offset : scratch_; }

  TreeSum& sum_;
  int leaf_;
  float* arena_;  // nullptr: the scratch buffer
  float* scratch_;
};

TreeSum::TreeSum(const ParameterLayout& layout, const GrainTree& tree, GrainRange range, int lanes,
                 Complete complete)
    : layout_(layout),
      tree_(tree),
      range_(range),
      complete_(std::move(complete)),
      isCover_(static_cast<std::size_t>(tree.nodeCount())),
      arenaOfGrain_(static_cast<std::size_t>(range.count()), -1),
      finished_(static_cast<std::size_t>(tree_.nodeCount()) * layout.pieces().size()) {
  for (const int node : tree_.cover(range)) isCover_[static_cast<std::size_t>(node)] = true;
  for (int lane = 0; lane < lanes; ++lane) {
    const GrainRange mine = shareOf(range, {lane, lanes});
    scratch_.emplace_back(layout.largestPiece());
    placeGrains(mine);
    for (GrainIndex grain = mine.first; grain < mine.last; ++grain) {
      const int arena = arenaIndex(grain);
      float* place = arena < 0 ? nullptr : arenas_[static_cast<std::size_t>(arena)].data();
      sinks_.push_back(std::make_unique<Sink>(*this, tree_.leaf(grain), place, scratch_.back().data()));
    }
  }
}

TreeSum::~TreeSum() = default;

GradientSink& TreeSum::sinkFor(GrainIndex grain) {
  return *sinks_[static_cast<std::size_t>(grain - range_.first)];
}

std::span<float> TreeSum::arenaOf(int node) {
  return arenas_[static_cast<std::size_t>(arenaIndex(tree_.node(node).grains.first))].span();
}

// Walks through one lane's step: `open` holds the arenas of the lane's finished nodes that wait for their
// other half.
void TreeSum::placeGrains(GrainRange grains) {
  std::vector<int> openNodes;
  std::vector<int> openArenas;
  std::vector<int> freeArenas;
  for (GrainIndex grain = grains.first; grain < grains.last; ++grain) {
    int node = tree_.leaf(grain);
    const auto leftIsOurs = [&] {
      const int parent = tree_.node(node).parent;
      return parent >= 0 && !openNodes.empty() && tree_.node(parent).left == openNodes.back();
    };
    int arena = -1;
    if (!leftIsOurs()) {
      if (freeArenas.empty()) {
        arenas_.emplace_back(layout_.size());
        freeArenas.push_back(static_cast<int>(arenas_.size()) - 1);
      }
      arena = freeArenas.back();
      freeArenas.pop_back();
    }
    arenaOfGrain_[static_cast<std::size_t>(grain - range_.first)] = arena;
    while (leftIsOurs()) {
      if (arena >= 0) freeArenas.push_back(arena);
      arena = openArenas.back();
      node = tree_.node(node).parent;
      openNodes.pop_back();
      openArenas.pop_back();
    }
    openNodes.push_back(node);
    openArenas.push_back(arena);
  }
}

float* TreeSum::place(int node, PieceIndex piece) {
  return arenaOf(node).data() + layout_.piece(piece).offset;
}

void TreeSum::finish(int node, PieceIndex piece, float* values) {
  const Piece& where = layout_.piece(piece);
  const std::size_t pieces = layout_.pieces().size();
  while (!isCover_[static_cast<std::size_t>(node)]) {
    const int parent = tree_.node(node).parent;
    // Releases what this lane wrote, and acquires what the other half's lane wrote, whoever comes second.
    std::atomic<std::uint32_t>& halves =
        finished_[static_cast<std::size_t>(parent) * pieces + static_cast<std::size_t>(piece)];
    if ((halves.fetch_add(1, std::memory_order_acq_rel) & 1u) == 0) return;
    const bool isLeft = tree_.isLeft(node);
    float* left = place(tree_.node(parent).left, piece);
    const float* right = isLeft ? place(tree_.node(parent).right, piece) : values;
    addInto(left, right, where.size);
    values = left;
    node = parent;
  }
  complete_(node, piece, {values, where.size});
}

}  // namespace cohort
