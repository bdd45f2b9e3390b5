<?php
// eloquent_migration.php -- database/migrations/2026_01_01_000000_create_photos.php
//
// doc/languages.md shows it.  eloquent_photos.php tests it.

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

return new class extends Migration {
    public function up(): void
    {
        Schema::create('photos', function (Blueprint $table) {
            $table->snowflakeKey();
            $table->text('url');
        });
        Schema::create('comments', function (Blueprint $table) {
            $table->snowflakeKey();
            $table->snowflake('photo_id');
            $table->foreign('photo_id')->references('id')->on('photos');
        });
        Schema::create('visits', function (Blueprint $table) {
            $table->snowflakeKey(type: 'bigInteger');
        });
    }

    public function down(): void
    {
        Schema::drop('visits');
        Schema::drop('comments');
        Schema::drop('photos');
    }
};
