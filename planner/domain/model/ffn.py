"""Feed-forward blocks."""

from dataclasses import dataclass

from planner.domain.model.sizes import Size, SizeOrNone


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseFfn:
    """A feed-forward block that every token passes; `gated`: with a gate beside the up and down projections."""

    size: Size
    gated: bool = True

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return self.gated

    @property
    def words(self) -> str:
        """`dense, 18,432`."""
        return f"dense, {self.size:,}{'' if self.gated else ' without gate'}"

    def parameters(self, hidden_size: int) -> int:
        """Weights (count)."""
        return (3 if self.gated else 2) * hidden_size * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture-of-experts block: `active` of `routed` experts see a token, `shared` see every token.

    `node_limit`: a token's experts lie in at most so many of the groups that the experts are parted into (0: anywhere).
    `shared_size`: width of a shared expert where it is not that of the others (0: it is). `latent`: width that tokens
    are projected to before they are sent to the routed experts, and back from (0: they are sent as they are).
    `zero`: further experts that a router may choose and that do nothing; `active` are those of the others that a token
    meets on average.
    """

    routed: Size
    active: int
    shared: SizeOrNone
    ffn_size: Size
    node_limit: int = 0
    shared_size: SizeOrNone = 0
    gated: bool = True
    latent: SizeOrNone = 0
    zero: SizeOrNone = 0

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return self.gated and not self.latent and not self.zero

    @property
    def words(self) -> str:
        """`8 of 256 experts of 2,048, 1 shared`."""
        shared = f", {self.shared} shared" if self.shared else ""
        wide = f" of {self.shared_size:,}" if self.shared and self.shared_size else ""
        latent = f", latent {self.latent:,}" if self.latent else ""
        gate = "" if self.gated else " without gate"
        zero = f", {self.zero} that do nothing" if self.zero else ""
        return f"{self.active} of {self.routed} experts of {self.ffn_size:,}{gate}{shared}{wide}{latent}{zero}"

    @property
    def shared_width(self) -> int:
        """Columns of all shared experts together."""
        return self.shared * (self.shared_size or self.ffn_size)

    def expert_parameters(self, hidden_size: int) -> int:
        """Weights of one routed expert (count)."""
        return (3 if self.gated else 2) * self.sent_width(hidden_size) * self.ffn_size

    def shared_parameters(self, hidden_size: int) -> int:
        """Weights of all shared experts (count)."""
        return (3 if self.gated else 2) * hidden_size * self.shared_width

    def router_parameters(self, hidden_size: int) -> int:
        """Weights of the router (count), projections to the latent width and back included."""
        return hidden_size * (self.routed + self.zero) + self.latent_parameters(hidden_size)

    def latent_parameters(self, hidden_size: int) -> int:
        """Weights of the projections to the latent width and back (count)."""
        return 2 * hidden_size * self.latent

    def sent_width(self, hidden_size: int) -> int:
        """Elements of a token that is sent to the routed experts."""
        return self.latent or hidden_size
