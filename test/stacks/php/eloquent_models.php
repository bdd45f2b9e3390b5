<?php
// eloquent_models.php -- models with snowflake keys
//
// doc/languages.md shows it.  eloquent_photos.php tests it.

use Illuminate\Database\Eloquent\Builder;
use Illuminate\Database\Eloquent\Model;

abstract class SnowflakeModel extends Model
{
    protected $keyType = 'string';      // in JSON, too; (int) $photo->id is the integer
    protected $guarded = [];
    public $timestamps = false;

    // The rows that were made at this time or later
    public function scopeSince(Builder $query, DateTimeInterface $time): void
    {
        $query->whereRaw('id >= snowflake_floor(?)', [$time->format(DATE_RFC3339_EXTENDED)])->orderBy('id');
    }
}

class Photo extends SnowflakeModel
{
    // The rows below the last id of the page before, newest first
    public function scopePage(Builder $query, int $size, int|string $last = PHP_INT_MAX): void
    {
        $query->where('id', '<', $last)->orderByDesc('id')->limit($size);
    }

    // Ids for rows that you will insert
    public static function fetchIds(int $count): array
    {
        $rows = static::query()->getConnection()
            ->select('SELECT snowflake_nextval() AS id FROM generate_series(1, ?)', [$count]);
        return array_column($rows, 'id');
    }

    public function comments(): Illuminate\Database\Eloquent\Relations\HasMany
    {
        return $this->hasMany(Comment::class);
    }
}

class Comment extends SnowflakeModel
{
    public function photo(): Illuminate\Database\Eloquent\Relations\BelongsTo
    {
        return $this->belongsTo(Photo::class);
    }
}

class Visit extends SnowflakeModel
{
}
