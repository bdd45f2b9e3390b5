# Have CBMC prove what test/hard/proof/layout.c states.
#
#   proof.pl [ROOT]
#
# For each preset, over all values of 64 bits.  What must not be provable is tried as
# well: with each of the faults below, put into a copy of the source, some proof must
# fail, or all of them prove nothing.
#
# The source goes to CBMC preprocessed, so that it needs no headers, and CBMC may be
# in another Debian, the directory ROOT, if this one has none.  Needs gcc and the
# headers of a server, and root if there is a ROOT.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;
use Tool;

my $LIMIT = 60;    # seconds for one proof
my $SONYFLAKE = 3;    # the first preset that every proof is about
my @PROOFS = qw(pack_unpack unpack_pack order position_after first_position minted);

# Faults: a sed script for src/layout.[ch] and the proof that must fail with it.
my @FAULTS = (
	[ 's/return id >> layout->timestamp_shift/return id >> layout->shard_bits/', 'pack_unpack' ],
	[ 's/(uint64) tick << layout->timestamp_shift/(uint64) (tick << layout->timestamp_shift)/', 'pack_unpack' ],
	[ 's/(uint64) shard << layout->shard_shift/(uint64) shard << layout->sequence_shift/', 'unpack_pack' ],
	[ 's/return position >> layout->sequence_bits/return -(position >> layout->sequence_bits)/', 'order' ],
	[ 's/shard > layout_shard(layout, id) ?/shard >= layout_shard(layout, id) ?/', 'position_after' ],
	[ 's/Min(spread, layout->sequence_bits)/layout->sequence_bits + 1/', 'first_position' ],
	[ 's/layout_mask(tick_bits)/layout_mask(tick_bits + 1)/', 'minted' ],
	[ 's/total > ID_BITS/total > ID_BITS + 1/', 'place_fields' ],);

my $root = $ARGV[0] // '';
my $work = scratch("$root/tmp");
chomp(my ($include, $libdir) = `pg_config --includedir-server --pkglibdir`);

# Run a shell script that must succeed.
sub must_run
{
	my ($script, @arguments) = @_;
	my ($output, $status) = output_of('sh', '-ec', $script, 'sh', @arguments);

	die "$script: $output" if $status;
	return $output;
}

# The presets of a tree, as C initializers.
sub presets_of
{
	return split /^/, must_run(<<"END", @_);
gcc -I$include "\$1/test/hard/proof/presets.c" -o $work/presets $libdir/libpgport.a
$work/presets | tee $work/presets.inc
END
}

# What CBMC says of one preset of a tree, and its status: 0 if proved, 10 if refuted.
sub prove
{
	my ($proof, $preset, $tree) = @_;
	my $source = "$work/preset.i";

	must_run("gcc -E -P -I$include -I$work -DPRESET=$preset \"\$1/test/hard/proof/layout.c\" -o $source", $tree);
	return output_of('timeout', $LIMIT, $root ? ('chroot', $root) : (), 'cbmc', substr($source, length($root)),
		'--function', "proof_$proof", qw(--unwind 6 --unwinding-assertions --signed-overflow-check
		  --undefined-shift-check --bounds-check --pointer-check --div-by-zero-check));
}

sub proves
{
	my ($proof, $preset, $name) = @_;
	my ($output, $status) = prove($proof, $preset, $top);

	return ok($status == 0, "proved of $name: " . $proof =~ tr/_/ /r) || diag_tail($output);
}

sub refutes
{
	my ($script, $proof) = @_;
	my $tree = "$work/broken";
	my $changes = must_run(<<'END', $top, $tree, $script);
rm -rf "$2"
mkdir -p "$2/test/hard"
cp -r "$1/src" "$2"
cp -r "$1/test/hard/proof" "$1/test/hard/calendar.h" "$2/test/hard"
sed -i "$3" "$2"/src/layout*.[ch]
diff -r "$1/src" "$2/src" || true
END
	my ($output, $status) = ('this fault is not there to be made', 0);

	if ($changes)
	{
		presets_of($tree);
		($output, $status) = prove($proof, $SONYFLAKE, $tree);
	}
	return ok($status == 10, "refuted: $proof with $script") || diag_tail($output);
}

my @presets = presets_of($top);
for my $preset (0 .. $#presets)
{
	my ($name) = $presets[$preset] =~ m{/\* (.*) \*/};
	my @proofs = grep { $_ ne 'position_after' || $presets[$preset] !~ /sequence_shift = 0,/ } @PROOFS;
	proves($_, $preset, $name) for @proofs;
}
proves('place_fields', 0, 'all specifications');
refutes(@$_) for @FAULTS;
done_testing();
